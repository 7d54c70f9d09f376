"""The kinds of rules: what each compares, with which threshold, and for how long it must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FAILURE_RATE = "failure_rate"
OLDEST_DUE = "oldest_due"
WORKER_SILENT = "worker_silent"
QUOTA_UNFILLED = "quota_unfilled"
SWEEP_OVERDUE = "sweep_overdue"
BREAKER_OPEN = "breaker_open"
BACKLOG_GROWTH = "backlog_growth"
SCHEDULE_FAILED = "schedule_failed"

# Fewer ended jobs say nothing about a share of failures.
MIN_ENDED = 20

# What an alert is about.
JOB_TYPE, WORKER, ONCE_TASK, SWEEP = "job_type", "worker", "once_task", "sweep"
# A schedule whose jobs fail, and one whose last run made none.
SCHEDULE, SCHEDULE_RUN = "schedule", "schedule_run"


class Kind(NamedTuple):
    """`threshold` and `for_seconds` are what a rule has that names none; without a threshold there
    is nothing to compare. `rises`: a value at or above the threshold is wrong, else one below.
    `highest`: no threshold lies above it."""

    threshold: float | None
    for_seconds: int
    rises: bool = True
    highest: float = 365 * 86_400.0


KINDS: Mapping[str, Kind] = {
    FAILURE_RATE: Kind(0.2, 120, highest=1.0),
    OLDEST_DUE: Kind(300.0, 60),
    WORKER_SILENT: Kind(None, 60),
    QUOTA_UNFILLED: Kind(0.8, 0, rises=False, highest=1.0),
    SWEEP_OVERDUE: Kind(3.0, 60, highest=10_000.0),
    BREAKER_OPEN: Kind(None, 0),
    # Ready jobs are counted up to a thousand.
    BACKLOG_GROWTH: Kind(100.0, 900, highest=1_000.0),
    SCHEDULE_FAILED: Kind(None, 0),
}
