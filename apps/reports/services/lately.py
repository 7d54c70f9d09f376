"""The last hour, from the rollups of closed minutes.

All figures here end at `Stored.closed_until`, the end of the newest minute that is added up. So
they change once a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import models

from apps.common import ids
from apps.common.db import fetch, fetch_each, placeholders, table
from apps.dispatch.models import Executor, Membership
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.models import Rollup
from apps.reports.rules.coverage import HOUR, MINUTE, floor
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    ENDS,
    EXPIRED,
    FAILED,
    FINAL,
    JOB,
    RELEASED,
    SUCCEEDED,
    TIMED_OUT,
    TOTAL,
    success_rate,
)
from apps.reports.rules.sketch import percentiles
from apps.reports.rules.tally import ALL, EXECUTOR, TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import RUN, WAIT, Counted, Selection, rows_in, sums_in

MINUTES = HOUR // MINUTE
# Rates cover this time, because one minute alone says little where little happens.
FLOW = timedelta(minutes=5)
MAX_DRAWN = 12
# At most this many rollups are read for the table of types or groups.
MAX_READ = 20_000
# Users named in one statement.
_NAMED_AT_ONCE = 1_000

_FAILURES = (FAILED, TIMED_OUT, EXPIRED)
# The outcomes that end a dispatch or a job; a retried attempt does not.
_ENDS = {
    JOB: FINAL,
    DISPATCH: (*FINAL, RELEASED),
}


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

    @property
    def flow(self) -> int:
        """The number of ends in the last FLOW."""
        return sum(self.ended[-(FLOW // timedelta(seconds=MINUTE)) :])


def came_in(
    made: Sequence[type[models.Model]], until: datetime, limit: int
) -> dict[type[models.Model], int]:
    """The number of jobs or dispatches made in the FLOW before `until`, each up to `limit`."""
    between = [ids.lowest_id_at(until - FLOW), ids.lowest_id_at(until)]
    those = [f"FROM {table(model)} WHERE id >= %s AND id < %s" for model in made]
    # COUNT(*) over a LIMIT would write the rows to a temporary table first.
    counts = ", ".join(
        f"COALESCE((SELECT {limit:d} {each} LIMIT 1 OFFSET {limit - 1:d}), "
        f"(SELECT COUNT(*) {each}))"
        for each in those
    )
    [found] = fetch(f"SELECT {counts}", [*between, *between] * len(made)) if made else [()]
    return dict(zip(made, found, strict=True))


def just_ended(
    since: datetime,
    sources: Collection[str],
    limit: int,
    *,
    executors: Collection[str] | None = None,
) -> dict[str, int]:
    """By source, how many jobs or dispatches have ended since then, up to `limit` in all.

    This is what the rollups do not have yet; dispatches only those of `executors`.
    """
    found = dict.fromkeys(sources, 0)
    for source, outcome, _type, executor in _ends_since(since, limit):
        is_hidden = source == DISPATCH and executors is not None and executor not in executors
        if source in found and not is_hidden:
            found[source] += outcome in _ENDS[source]
    return found


def _ends_since(since: datetime, limit: int) -> Iterator[tuple[str, str | None, str, str]]:
    """Of the newest entries since then: source, outcome, type or task, executor."""
    made = JournalEntry.objects.filter(pk__gte=ids.lowest_id_at(since)).order_by("-pk")
    names = ("source", "event", "from_state", "to_state", "type_or_task", "executor")
    for source, event, before, after, type_, executor in made.values_list(*names)[:limit]:
        yield source, ENDS.get((source, event, before, after)), type_, executor


class Ends(NamedTuple):
    """How many jobs of a type ended, and how many of them failed."""

    ended: int
    failed: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


def ends_by_type(now: datetime, length: timedelta, limit: int) -> dict[str, Ends]:
    """What ended in the time before `now`, by job type; cancelled jobs are left out.

    Of the closed minutes by the rollups, and after them of the newest `limit` journal entries.
    """
    since = floor(second_of(now - length), MINUTE)
    stored = Stored.read()
    until = max(since, stored.end or 0)
    runs, _left = stored.cover([(since, until)]) if since < until else ([], [])
    found: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    chosen = Selection(JOB, TYPE)
    for name, counted in sums_in(chosen, runs, (SUCCEEDED, *_FAILURES)).items():
        found[name], failed[name] = sum(counted), sum(counted[1:])
    for source, outcome, type_, _executor in _ends_since(instant_of(until), limit):
        if source == JOB and outcome in (SUCCEEDED, *_FAILURES):
            found[type_] += 1
            failed[type_] += outcome != SUCCEEDED
    return {name: Ends(count, failed[name]) for name, count in found.items()}


# --- the hour, and the one before -----------------------------------------------------------------
def last_hours(
    stored: Stored, sources: Collection[str], *, executors: Sequence[str] | None = None
) -> dict[str, tuple[Ended, Ended]]:
    """By source, the last hour and the hour before it; dispatches only those of `executors`."""
    end = stored.end or 0
    middle = end - HOUR
    runs, _left = stored.cover([(middle - HOUR, middle), (middle, end)])
    # The hour before, and the last one.
    rows: dict[str, tuple[list[Counted], list[Counted]]] = {source: ([], []) for source in sources}
    for source in sources:
        chosen = Selection(source, ALL)
        if source == DISPATCH and executors is not None:
            chosen = Selection(source, EXECUTOR, tuple(executors))
        for start, _value, counted in rows_in(chosen, runs):
            rows[source][start >= middle].append(counted)
    return {
        source: (_ended(source, last), _ended(source, before))
        for source, (before, last) in rows.items()
    }


def _ended(source: str, rows: Sequence[Counted]) -> Ended:
    counts = {name: sum(row[place] for row in rows) for place, name in enumerate(COUNTS)}
    [wait_p95] = percentiles([row[WAIT] for row in rows], (0.95,))
    [run_p95] = percentiles([row[RUN] for row in rows], (0.95,))
    return Ended(
        ended=sum(counts[each] for each in _ENDS[source]),
        attempts=counts[TOTAL],
        success_rate=success_rate(**{each: counts[each] for each in (SUCCEEDED, *_FAILURES)}),
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

    def trends_of_types(self, names: Collection[str]) -> list[Trend] | None:
        """The trends of the busiest job types, by name, filled up with idle ones among `names`.

        None when that would read more than MAX_READ rollups.
        """
        values = self._values(OF_TYPES)
        if values is None:
            return None
        return _busiest(self._trends(OF_TYPES, {name: (name,) for name in values}), names)

    def trends_of_groups(
        self, names: Collection[str], *, only: Collection[str] | None = None
    ) -> list[Trend] | None:
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
        return _busiest(self._trends(OF_GROUPS, groups), names)

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
    sums = (" + ".join(names) for names in (_ENDS[source], _FAILURES, (SUCCEEDED,)))
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


def _busiest(found: dict[str, Trend], names: Collection[str]) -> list[Trend]:
    """Sorted by name, so that rows keep their places when volumes change."""
    chosen = sorted(found.values(), key=lambda each: (-each.total, each.name))[:MAX_DRAWN]
    idle = [Trend(name) for name in sorted(names) if name not in found]
    return sorted([*chosen, *idle][:MAX_DRAWN], key=lambda each: each.name)
