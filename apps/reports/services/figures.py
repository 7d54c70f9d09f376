"""What a report tells: the figures of a group, and all of a period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.reports.rules.histogram import percentiles
from apps.reports.rules.outcomes import COUNTS, success_rate
from apps.reports.services.stored import Counted


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end), both aware; `zone` decides where hours and days begin."""

    start: datetime
    end: datetime
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds, 2 % off at most; None of nothing."""

    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What ended in a group (rules.outcomes tells what counts as what).

    Of jobs `total` is the sum of the other counts; of dispatches `retried` comes beside it. `start`
    is that of an hour or day, else None. `wait` and `run` are those of all ends that have them.
    """

    group: str
    start: datetime | None
    total: int
    succeeded: int
    failed: int
    retried: int
    timed_out: int
    expired: int
    released: int
    cancelled: int
    stage_done: int
    wait: Percentiles
    run: Percentiles

    @property
    def success_rate(self) -> float | None:
        """The share of 1 that succeeded of what ended by itself; None when nothing did."""
        return success_rate(
            succeeded=self.succeeded,
            failed=self.failed,
            timed_out=self.timed_out,
            expired=self.expired,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows in order of time, or the greatest total first; `total` is of the whole period.

    The figures are those of [start, as_of): the period cut as kept stretches allow, and ended where
    the first minute is not added up yet. `names` are the groups of all rows, those that are left
    out last. `timed` is None, or how many of the first rows have their percentiles; there are too
    many to tell those of all.
    """

    rows: tuple[Figures, ...]
    total: Figures
    start: datetime
    as_of: datetime
    names: Sequence[str]
    timed: int | None = None


_NOTHING: Counted = (*(0,) * len(COUNTS), b"", b"")


def figures_of(group: str, counted: Sequence[Counted], start: datetime | None = None) -> Figures:
    """What is counted of a group, added up."""
    *counts, waits, runs = zip(*counted or [_NOTHING], strict=True)
    return Figures(
        group,
        start,
        **dict(zip(COUNTS, map(sum, counts), strict=True)),
        wait=_percentiles(waits),
        run=_percentiles(runs),
    )


def _percentiles(packed: Sequence[bytes]) -> Percentiles:
    return Percentiles(*percentiles(packed, (0.5, 0.95, 0.99)))
