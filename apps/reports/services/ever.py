"""What was handed out and has ended since the beginning: for figures that only grow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from apps.common import clock
from apps.common.db import fetch, fetch_each, table
from apps.reports.models import Rollup, Stretch
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import COUNTS
from apps.reports.rules.tally import ALL
from apps.reports.services.stretches import (
    beginning,
    cover_by_stored,
    instant_of,
    kept_from,
    second_of,
    stored_to,
)


class Ever(NamedTuple):
    """Ends by source and outcome (rules.outcomes), hand-outs, and up to when they are added up.

    `as_of` is None while nothing is.
    """

    ended: dict[tuple[str, str], int]
    handed_out: int
    as_of: datetime | None


def ever() -> Ever:
    """The sums of the coarsest stored stretches, so few rows however long it has been."""
    end = stored_to()
    first = beginning(kept_from())
    if end is None or first is None:
        return Ever({}, 0, None)
    runs, _left = cover_by_stored([(first, second_of(clock.now()))])
    ended: dict[tuple[str, str], int] = {}
    for run in runs:
        for source, outcome, count in _of(run):
            ended[source, outcome] = ended.get((source, outcome), 0) + count
    return Ever(ended, _handed_out(runs), instant_of(end))


def _handed_out(runs: Sequence[Run]) -> int:
    select = (
        f"SELECT SUM(handed_out) FROM {table(Stretch)} "
        "WHERE level = %s AND start >= %s AND start < %s"
    )
    return sum(int(each or 0) for (each,) in fetch_each((select, run) for run in runs))


def _of(run: Run) -> list[tuple[str, str, int]]:
    sums = ", ".join(f"SUM({name})" for name in COUNTS)
    rows = fetch(
        f"SELECT source, {sums} FROM {table(Rollup)} WHERE level = %s AND source IN ('dispatch', "
        "'job') AND dimension = %s AND start >= %s AND start < %s GROUP BY source",
        [run.level, ALL, run.start, run.end],
    )
    return [
        (source, outcome, int(count))
        for source, *counts in rows
        for outcome, count in zip(COUNTS, counts, strict=True)
    ]
