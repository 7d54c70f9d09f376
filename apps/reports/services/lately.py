"""The last hour, from the rollups of closed minutes.

All figures here end at `Stored.closed_until`, the end of the newest minute that is added up. So
they change once a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from apps.common.db import fetch_each, placeholders, table
from apps.common.kept import Kept
from apps.dispatch.models import Executor, Membership
from apps.journal.services.minutes import second_of
from apps.reports.models import Rollup
from apps.reports.rules.coverage import HOUR, MINUTE
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    FAILURES,
    JOB,
    OVER,
    SUCCEEDED,
    TOTAL,
    success_rate,
)
from apps.reports.rules.sketch import percentiles
from apps.reports.rules.tally import ALL, EXECUTOR, TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import RUN, WAIT, Counted, Selection, rows_in

MINUTES = HOUR // MINUTE
MAX_DRAWN = 12
# At most this many rollups are read for the table of types or groups.
MAX_READ = 20_000
# Users named in one statement.
_NAMED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Ended:
    """What ended in an hour: jobs or dispatches, and `attempts` as the reports count them. The p95s
    are of all attempts, in milliseconds."""

    ended: int
    attempts: int
    success_rate: float | None
    wait_p95: int | None
    run_p95: int | None


@dataclass(frozen=True, slots=True)
class Trend:
    """The last hour of a type, a group or everything: the numbers of ends, failures (failed, timed
    out, expired) and successes in each minute, the newest last."""

    name: str
    ended: list[int] = field(default_factory=lambda: [0] * MINUTES)
    failed: list[int] = field(default_factory=lambda: [0] * MINUTES)
    succeeded: list[int] = field(default_factory=lambda: [0] * MINUTES)

    @property
    def total(self) -> int:
        return sum(self.ended)

    @property
    def success_rate(self) -> float | None:
        return success_rate(
            succeeded=sum(self.succeeded), failed=sum(self.failed), timed_out=0, expired=0
        )


# --- the hour, and the one before -----------------------------------------------------------------
# By the end of the totals, the source and its executors.
hours: Kept[tuple[Ended, Ended]] = Kept(60.0)


def last_hours(
    stored: Stored, sources: Collection[str], *, executors: Sequence[str] | None = None
) -> dict[str, tuple[Ended, Ended]]:
    """By source, the last hour and the hour before it; dispatches only those of `executors`.

    They are read once for all pages, until another minute is added up.
    """
    found = {}
    for source in sources:
        names = None if source == JOB or executors is None else tuple(executors)
        key = stored.end, source, names
        found[source] = hours.get(key, partial(_two_hours, stored, source, names))
    return found


def _two_hours(
    stored: Stored, source: str, executors: tuple[str, ...] | None
) -> tuple[Ended, Ended]:
    end = stored.end or 0
    middle = end - HOUR
    runs, _left = stored.cover([(middle - HOUR, middle), (middle, end)])
    chosen = Selection(source, ALL) if executors is None else Selection(source, EXECUTOR, executors)
    last: list[Counted] = []
    before: list[Counted] = []
    for start, _value, counted in rows_in(chosen, runs):
        (last if start >= middle else before).append(counted)
    return _ended(source, last), _ended(source, before)


def _ended(source: str, rows: Sequence[Counted]) -> Ended:
    counts = {name: sum(row[place] for row in rows) for place, name in enumerate(COUNTS)}
    [wait_p95] = percentiles([row[WAIT] for row in rows], (0.95,))
    [run_p95] = percentiles([row[RUN] for row in rows], (0.95,))
    return Ended(
        ended=sum(counts[each] for each in OVER[source]),
        attempts=counts[TOTAL],
        success_rate=success_rate(**{each: counts[each] for each in (SUCCEEDED, *FAILURES)}),
        wait_p95=wait_p95,
        run_p95=run_p95,
    )


# --- minute by minute -----------------------------------------------------------------------------
# A source and a dimension.
Series = tuple[str, str]
OF_TYPES: Series = (JOB, TYPE)
OF_GROUPS: Series = (DISPATCH, EXECUTOR)


def of_all(source: str) -> Series:
    """Everything of a source."""
    return source, ALL


@dataclass(frozen=True, slots=True)
class Minutes:
    """The ends in each minute of the last hour."""

    until: datetime
    # By value and minute: index of the series, value, start of the minute, ends, failures and
    # successes. One row more than MAX_READ where there are too many.
    rows: Mapping[Series, list[tuple[Any, ...]]]

    @classmethod
    def read(cls, until: datetime, series: Sequence[Series]) -> Minutes:
        """Read all series in one statement."""
        end = second_of(until)
        parts = [
            (_select(place, source), [MINUTE, source, dimension, end - HOUR, end])
            for place, (source, dimension) in enumerate(series)
        ]
        rows: list[list[tuple[Any, ...]]] = [[] for _ in series]
        for row in fetch_each(parts):
            rows[row[0]].append(row)
        return cls(until, dict(zip(series, rows, strict=True)))

    def trend_of_all(self, source: str) -> Trend:
        """Everything of a source."""
        return self._trends(of_all(source), {"": ("",)}).get("", Trend(""))

    def trends_of_types(self) -> list[Trend] | None:
        """The trends of the busiest job types, by name; None when that would read more than
        MAX_READ rollups."""
        values = self._values(OF_TYPES)
        if values is None:
            return None
        return _busiest(self._trends(OF_TYPES, {name: (name,) for name in values}))

    def trends_of_groups(self, *, only: Collection[str] | None = None) -> list[Trend] | None:
        """The trends of groups: the dispatches of their present members. `only` limits the groups
        by name. None as in `trends_of_types`."""
        users = self._values(OF_GROUPS)
        if users is None:
            return None
        groups = _groups_of(users)
        if only is not None:
            groups = {
                user: [each for each in some if each in only] for user, some in groups.items()
            }
        return _busiest(self._trends(OF_GROUPS, groups))

    def _values(self, series: Series) -> set[str] | None:
        rows = self.rows[series]
        return None if len(rows) > MAX_READ else {row[1] for row in rows}

    def _trends(self, series: Series, names_of: Mapping[str, Sequence[str]]) -> dict[str, Trend]:
        """The trends of these names; each value counts for its names."""
        first = second_of(self.until) - HOUR
        found = {name: Trend(name) for names in names_of.values() for name in names}
        for _series, value, start, ended, failed, succeeded in self.rows[series]:
            minute = (start - first) // MINUTE
            for name in names_of.get(value, ()):
                trend = found[name]
                trend.ended[minute] += ended
                trend.failed[minute] += failed
                trend.succeeded[minute] += succeeded
        return found


def _select(place: int, source: str) -> str:
    sums = (" + ".join(names) for names in (OVER[source], FAILURES, (SUCCEEDED,)))
    return (
        f"SELECT {place}, value, start, {', '.join(sums)} FROM {table(Rollup)} "
        "WHERE level = %s AND source = %s AND dimension = %s AND start >= %s AND start < %s "
        f"LIMIT {MAX_READ + 1}"
    )


def _groups_of(users: Collection[str]) -> dict[str, list[str]]:
    """The names of the present groups of these users."""
    named = sorted(users)
    parts = (named[at : at + _NAMED_AT_ONCE] for at in range(0, len(named), _NAMED_AT_ONCE))
    select = (
        f"SELECT u.name, g.name FROM {table(Executor)} u "
        f"JOIN {table(Membership)} m ON m.user_id = u.id "
        f"JOIN {table(Executor)} g ON g.id = m.group_id WHERE u.name IN "
    )
    found: dict[str, list[str]] = {}
    for user, group in fetch_each((f"{select}({placeholders(len(some))})", some) for some in parts):
        found.setdefault(user, []).append(group)
    return found


def _busiest(found: dict[str, Trend]) -> list[Trend]:
    """Without idle ones, and sorted by name, so that rows keep their places when volumes change."""
    busy = [each for each in found.values() if each.total]
    chosen = sorted(busy, key=lambda each: (-each.total, each.name))[:MAX_DRAWN]
    return sorted(chosen, key=lambda each: each.name)
