"""How much is handed out at present, counted no further than anybody wants to know."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from apps.common.db import fetch, instant, table
from apps.dispatch.models import Dispatch
from apps.dispatch.rules.policy import OPEN


class InFlight(NamedTuple):
    """The open dispatches, up to a limit, and the earliest deadline among all of them."""

    open: int
    deadline_at: datetime | None


def in_flight(most: int) -> InFlight:
    """Both from the index of deadlines. The state is a literal, without which SQLite would not use
    its partial index."""
    is_open = f"FROM {table(Dispatch)} WHERE state = '{OPEN}'"
    [(count, deadline_at)] = fetch(
        f"SELECT (SELECT COUNT(*) FROM (SELECT 1 {is_open} LIMIT {int(most)}) counted), "
        f"(SELECT MIN(deadline_at) {is_open})"
    )
    return InFlight(count, instant(deadline_at))
