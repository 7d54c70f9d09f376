"""Handlers of the benchmark's workers, found because they name this package in EXTRA_APPS."""

from __future__ import annotations

import time
from typing import Any

from apps.jobs.handlers import handler


@handler("noop", batch_limit=1000)
def noop(context: Any) -> None:
    """Nothing: what is measured is all the rest."""


@handler("stamp")
def stamp(context: Any) -> float:
    """Seconds since the submitter read the clock, which all processes of a machine share."""
    return time.monotonic() - float(context["at"])
