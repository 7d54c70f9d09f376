"""The columns of a report, and its rows in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import duration_of
from apps.reports.rules.outcomes import (
    CANCELLED,
    DISPATCH,
    EXPIRED,
    FAILED,
    FINAL,
    FLOW,
    JOB,
    RELEASED,
    RETRIED,
    STAGE_DONE,
    STEP,
    SUCCEEDED,
    TIMED_OUT,
    TOTAL,
)
from apps.reports.services.choice import ALL_COLUMNS, Choice
from apps.reports.services.summary import DAY, MINUTE, Figures, Summary

# The ends of jobs and dispatches, however many attempts they took.
FINALLY = "final"
WORDS: dict[str, str | Promise] = {
    TOTAL: _("ended"),
    FINALLY: _("ended for good"),
    SUCCEEDED: _("succeeded"),
    FAILED: _("failed"),
    RETRIED: _("retried"),
    TIMED_OUT: _("timed out"),
    EXPIRED: _("expired"),
    RELEASED: _("released"),
    CANCELLED: _("cancelled"),
    STAGE_DONE: _("stage done"),
}
NOTHING = "–"
UP, DOWN = "better", "worse"
# From this factor on, a change is shown as a factor instead of a percentage.
MANY_TIMES = 10


@dataclass(frozen=True)
class Column:
    """A figure by its name in addresses and CSV; `value` reads it from a row.

    `counted` is the outcome of the entries behind it, `bound` the journal filter for slow entries.
    """

    name: str
    title: str | Promise
    value: Callable[[Figures], Any]
    shown: Callable[[Any], str]
    counted: str = TOTAL
    bound: str = ""
    # Whether a higher value is better (1), worse (-1) or neither (0).
    merit: int = 0
    unit: str = ""
    # Whether the table has it only if all columns are asked for.
    is_extra: bool = False

    @property
    def csv_name(self) -> str:
        """The name with the unit: `wait_p95_ms`."""
        return f"{self.name}_{self.unit}" if self.unit else self.name

    def has_entries(self, value: Any) -> bool:
        """Whether there are entries behind the value."""
        return value is not None and not (value == 0 and self.counted == self.name)


def whole(count: int) -> str:
    return f"{count:,}"


def percent(share: float | None) -> str:
    """`98.7 %`; only exactly 0 and 1 are shown as 0 % and 100 %."""
    if share is None:
        return NOTHING
    tenths = round(share * 1000)
    if share < 1:
        tenths = min(tenths, 999)
    if share > 0:
        tenths = max(tenths, 1)
    return f"{tenths // 10} %" if tenths % 1000 == 0 else f"{tenths / 10:.1f} %"


def duration(milliseconds: int | None) -> str:
    return NOTHING if milliseconds is None else duration_of(milliseconds)


def _count(name: str, merit: int = 0) -> Column:
    title = WORDS[name]
    return Column(name, title, lambda row: getattr(row, name), whole, counted=name, merit=merit)


def _percentile(of: str, share: str, title: str | Promise) -> Column:
    return Column(
        f"{of}_{share}",
        title,
        lambda row: getattr(getattr(row, of), share),
        duration,
        bound=f"{of}_from",
        merit=-1,
        unit="ms",
        is_extra=share == "p99",
    )


def _jobs_ended(row: Figures) -> int:
    return sum(getattr(row, name) for name in FINAL)


TOTALS = _count(TOTAL)
# A job may take several attempts; the last one ends the job.
ATTEMPTS = replace(TOTALS, title=_("tries ended"))
JOBS = Column(FINALLY, _("jobs ended"), _jobs_ended, whole, counted=FINALLY)
RATE = Column(
    "success_rate",
    _("success rate"),
    lambda row: row.success_rate,
    percent,
    counted=SUCCEEDED,
    merit=1,
)
SUCCESSES = _count(SUCCEEDED)
FAILURES = _count(FAILED, -1)
RETRIES = _count(RETRIED, -1)
TIMEOUTS = _count(TIMED_OUT, -1)
EXPIRIES = _count(EXPIRED, -1)
RELEASES = _count(RELEASED)
CANCELS = _count(CANCELLED)
STAGES = _count(STAGE_DONE)
TIMES = (
    _percentile("wait", "p50", _("wait p50")),
    _percentile("wait", "p95", _("wait p95")),
    _percentile("wait", "p99", _("wait p99")),
    _percentile("run", "p50", _("run p50")),
    _percentile("run", "p95", _("run p95")),
    _percentile("run", "p99", _("run p99")),
)
TIME_NAMES = tuple(column.name for column in TIMES)
_ENDS = (SUCCESSES, FAILURES, RETRIES, TIMEOUTS, EXPIRIES, RELEASES, CANCELS, STAGES)
# Flows wait for nobody before they begin.
_OF_FLOWS = (TOTALS, RATE, SUCCESSES, FAILURES, CANCELS, *TIMES[3:])
COLUMNS: dict[str, tuple[Column, ...]] = {
    JOB: (ATTEMPTS, RATE, *_ENDS, *TIMES),
    DISPATCH: (TOTALS, RATE, *(c for c in _ENDS if c not in (TIMEOUTS, STAGES)), *TIMES),
    FLOW: _OF_FLOWS,
    STEP: _OF_FLOWS,
}
# The parts of a total in the order of a stacked bar. Retries of dispatches are no part of it.
STACKED = {
    JOB: (SUCCESSES, STAGES, RETRIES, FAILURES, TIMEOUTS, EXPIRIES, RELEASES, CANCELS),
    DISPATCH: (SUCCESSES, FAILURES, EXPIRIES, RELEASES, CANCELS),
    FLOW: (SUCCESSES, FAILURES, CANCELS),
    STEP: (SUCCESSES, FAILURES, CANCELS),
}
TILES = {
    JOB: (JOBS, ATTEMPTS, RATE, FAILURES, RETRIES, TIMEOUTS, TIMES[1], TIMES[4]),
    DISPATCH: (TOTALS, RATE, FAILURES, RETRIES, EXPIRIES, TIMES[1], TIMES[4]),
    FLOW: (TOTALS, RATE, FAILURES, CANCELS, TIMES[3], TIMES[4]),
    STEP: (TOTALS, RATE, FAILURES, CANCELS, TIMES[3], TIMES[4]),
}
SORTS = tuple({column.name: None for each in COLUMNS.values() for column in each})


@dataclass(frozen=True)
class Row:
    """A row of a table: the figures of a group or a time, and their period [since, until)."""

    figures: Figures
    since: datetime
    until: datetime


def rows_of(summary: Summary) -> list[Row]:
    """The rows of a summary with their periods; a row of time ends where the next one begins."""
    starts = [row.start or summary.start for row in summary.rows]
    ends = [*starts[1:], summary.as_of]
    return [
        Row(row, since, until if row.start else summary.as_of)
        for row, since, until in zip(summary.rows, starts, ends, strict=False)
    ]


def columns_of(choice: Choice, total: Figures) -> tuple[Column, ...]:
    """The columns of the tables: without the extra ones, and those in which nothing is counted."""
    every = COLUMNS[choice.source]
    if choice.columns == ALL_COLUMNS:
        return every
    first, sort = every[0], choice.sort.lstrip("-")
    return tuple(
        column
        for column in every
        if column in (first, RATE)
        or column.name == sort
        or (not column.is_extra and column.has_entries(column.value(total)))
    )


def is_empty(row: Row) -> bool:
    """Whether nothing is counted in the row."""
    return not row.figures.total and not row.figures.retried


def ordered(choice: Choice, rows: Sequence[Row]) -> list[Row]:
    """Sorted as the report asks; rows without a value come last."""
    column = next((c for c in COLUMNS[choice.source] if c.name == choice.sort.lstrip("-")), None)
    if column is None:
        return list(rows)
    valued = [row for row in rows if column.value(row.figures) is not None]
    valued.sort(key=lambda row: column.value(row.figures), reverse=choice.sort.startswith("-"))
    return [*valued, *(row for row in rows if column.value(row.figures) is None)]


def change(column: Column, value: Any, old: Any) -> tuple[str, str]:
    """`+12 %`, `25 times as much`, or points of a rate; and whether that is better or worse."""
    if value is None or old is None:
        return "", ""
    difference = value - old
    if column is RATE:
        points = round(100 * difference, 1)
        text = gettext("%+.1f points") % points if points else gettext("unchanged")
        difference = points
    elif difference == 0:
        text = gettext("unchanged")
    elif old == 0:
        text = ""
    elif value >= old * MANY_TIMES:
        text = gettext("%s times as much") % f"{value / old:,.0f}"
    else:
        text = f"{100 * difference / old:+,.0f} %"
    merit = column.merit * difference
    return text, UP if merit > 0 else DOWN if merit < 0 else ""


def time_names(choice: Choice, by: str, rows: Sequence[Row]) -> list[str]:
    """The minutes, hours or days in the zone of the report; repeated ones show their offset."""
    local = [row.since.astimezone(choice.zone) for row in rows]
    if by == DAY:
        return [date_format(at, "SHORT_DATE_FORMAT") for at in local]
    names = [f"{at:%H:%M}" if by == MINUTE else f"{at:%m-%d %H:%M}" for at in local]
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [
        f"{name} ({at:%z})" if name in twice else name
        for name, at in zip(names, local, strict=True)
    ]
