"""How work went in the last hour, from the totals of closed minutes.

Everything here is of the time before `closed_until()`, the end of the newest minute that is added
up. So it changes once a minute, and whoever has it need not ask again before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models

from apps.common import ids
from apps.common.db import fetch, fetch_each, placeholders, table
from apps.dispatch.models import Executor, Membership
from apps.reports.models import Rollup
from apps.reports.rules.cover import HOUR, MINUTE
from apps.reports.rules.histogram import percentiles
from apps.reports.rules.outcomes import (
    CANCELLED,
    COUNTS,
    DISPATCH,
    EXPIRED,
    FAILED,
    JOB,
    RELEASED,
    SUCCEEDED,
    TIMED_OUT,
    success_rate,
)
from apps.reports.rules.tally import ALL, EXECUTOR, TYPE
from apps.reports.services.stored import RUN, WAIT, Chosen, Counted, rows_in
from apps.reports.services.stretches import cover_by_stored, instant_of, second_of, stored_to

MINUTES = HOUR // MINUTE
# Rates are of so many minutes: one alone says little where little happens.
FLOW = timedelta(minutes=5)
MAX_DRAWN = 12
# Rows of totals that the courses of types or groups are made of at most.
MAX_READ = 20_000
# So many users are named to the database at once.
_NAMED_AT_ONCE = 1_000

_UNLUCKY = (FAILED, TIMED_OUT, EXPIRED)
# What brings a dispatch or job to its end; an attempt that another follows does not.
_ENDS = {
    JOB: (SUCCEEDED, *_UNLUCKY, CANCELLED),
    DISPATCH: (SUCCEEDED, *_UNLUCKY, CANCELLED, RELEASED),
}


@dataclass(frozen=True, slots=True)
class Went:
    """What ended in a stretch of time. The p95s are of all attempts, in milliseconds."""

    ended: int
    success_rate: float | None
    wait_p95: int | None
    run_p95: int | None


@dataclass(frozen=True, slots=True)
class Course:
    """The last hour of a type or group, or of everything: in each minute, the newest one last, what
    ended, and what of it succeeded, and failed, timed out or expired."""

    name: str
    ended: list[int] = field(default_factory=lambda: [0] * MINUTES)
    unlucky: list[int] = field(default_factory=lambda: [0] * MINUTES)
    succeeded: list[int] = field(default_factory=lambda: [0] * MINUTES)

    @property
    def total(self) -> int:
        return sum(self.ended)

    @property
    def success_rate(self) -> float | None:
        return success_rate(
            succeeded=sum(self.succeeded), failed=sum(self.unlucky), timed_out=0, expired=0
        )

    @property
    def flow(self) -> int:
        """How much ended in the last minutes, those of FLOW."""
        return sum(self.ended[-(FLOW // timedelta(seconds=MINUTE)) :])


def closed_until() -> datetime | None:
    """The end of the newest minute that is added up; None before the first."""
    end = stored_to()
    return None if end is None else instant_of(end)


def came_in(
    made: Sequence[type[models.Model]], until: datetime, most: int
) -> dict[type[models.Model], int]:
    """How many rows of each, jobs or dispatches, were made in FLOW before `until`, at most so
    many."""
    between = [ids.lowest_id_at(until - FLOW), ids.lowest_id_at(until)]
    those = [f"FROM {table(model)} WHERE id >= %s AND id < %s" for model in made]
    # A count of the first so many would be written to a table and read again.
    counts = ", ".join(
        f"COALESCE((SELECT {most:d} {each} LIMIT 1 OFFSET {most - 1:d}), (SELECT COUNT(*) {each}))"
        for each in those
    )
    [found] = fetch(f"SELECT {counts}", [*between, *between] * len(made)) if made else [()]
    return dict(zip(made, found, strict=True))


# --- the hour, and the one before -----------------------------------------------------------------
def last_hours(
    sources: Collection[str], until: datetime, *, executors: Sequence[str] | None = None
) -> dict[str, tuple[Went, Went]]:
    """Of each source, the last hour and the hour before it.

    `executors` limits the dispatches to those of some users.
    """
    end = second_of(until)
    middle = end - HOUR
    runs, _left = cover_by_stored([(middle - HOUR, middle), (middle, end)])
    # The hour before, and the last one.
    rows: dict[str, tuple[list[Counted], list[Counted]]] = {source: ([], []) for source in sources}
    for source in sources:
        chosen = Chosen(source, ALL)
        if source == DISPATCH and executors is not None:
            chosen = Chosen(source, EXECUTOR, tuple(executors))
        for start, _value, counted in rows_in(chosen, runs):
            rows[source][start >= middle].append(counted)
    return {
        source: (_went(source, last), _went(source, before))
        for source, (before, last) in rows.items()
    }


def _went(source: str, rows: Sequence[Counted]) -> Went:
    counts = {name: sum(row[place] for row in rows) for place, name in enumerate(COUNTS)}
    [wait_p95] = percentiles([row[WAIT] for row in rows], (0.95,))
    [run_p95] = percentiles([row[RUN] for row in rows], (0.95,))
    return Went(
        ended=sum(counts[each] for each in _ENDS[source]),
        success_rate=success_rate(**{each: counts[each] for each in (SUCCEEDED, *_UNLUCKY)}),
        wait_p95=wait_p95,
        run_p95=run_p95,
    )


# --- minute by minute -----------------------------------------------------------------------------
# A source, and by what it is told apart.
Told = tuple[str, str]
OF_TYPES: Told = (JOB, TYPE)
OF_GROUPS: Told = (DISPATCH, EXECUTOR)


def of_all(source: str) -> Told:
    """Everything of a source."""
    return source, ALL


@dataclass(frozen=True, slots=True)
class Minutes:
    """What ended in each minute of the last hour."""

    until: datetime
    # Of each value and minute: what is told, the value, the minute's start, what ended, was unlucky
    # and succeeded; one row more than MAX_READ where there are too many.
    rows: Mapping[Told, list[tuple[Any, ...]]]

    @classmethod
    def read(cls, until: datetime, told: Sequence[Told]) -> Minutes:
        """All that is to be told, in one statement."""
        end = second_of(until)
        parts = [
            (_select(place, source), [MINUTE, source, dimension, end - HOUR, end])
            for place, (source, dimension) in enumerate(told)
        ]
        rows: list[list[tuple[Any, ...]]] = [[] for _ in told]
        for row in fetch_each(parts):
            rows[row[0]].append(row)
        return cls(until, dict(zip(told, rows, strict=True)))

    def course_of_all(self, source: str) -> Course:
        """Everything of a source."""
        return self._courses(of_all(source), {"": ("",)}).get("", Course(""))

    def courses_of_types(self, names: Collection[str]) -> list[Course] | None:
        """Those of the busiest job types, by name, and of idle ones among `names` as long as few
        are busy. None when more rows of totals would have to be read than MAX_READ."""
        values = self._values(OF_TYPES)
        if values is None:
            return None
        return _busiest(self._courses(OF_TYPES, {name: (name,) for name in values}), names)

    def courses_of_groups(
        self, names: Collection[str], *, only: Collection[str] | None = None
    ) -> list[Course] | None:
        """Those of groups: what their present members were handed out. `only` some, by their names;
        else as `courses_of_types`."""
        users = self._values(OF_GROUPS)
        if users is None:
            return None
        groups = _groups_of(users)
        if only is not None:
            groups = {
                user: [each for each in some if each in only] for user, some in groups.items()
            }
        return _busiest(self._courses(OF_GROUPS, groups), names)

    def _values(self, told: Told) -> set[str] | None:
        rows = self.rows[told]
        return None if len(rows) > MAX_READ else {row[1] for row in rows}

    def _courses(self, told: Told, names_of: Mapping[str, Sequence[str]]) -> dict[str, Course]:
        """The courses of these names; each value belongs to some of them."""
        first = second_of(self.until) - HOUR
        found = {name: Course(name) for names in names_of.values() for name in names}
        for _told, value, start, ended, unlucky, succeeded in self.rows[told]:
            minute = (start - first) // MINUTE
            for name in names_of.get(value, ()):
                course = found[name]
                course.ended[minute] += ended
                course.unlucky[minute] += unlucky
                course.succeeded[minute] += succeeded
        return found


def _select(place: int, source: str) -> str:
    sums = (" + ".join(names) for names in (_ENDS[source], _UNLUCKY, (SUCCEEDED,)))
    return (
        f"SELECT {place}, value, start, {', '.join(sums)} FROM {table(Rollup)} "
        "WHERE level = %s AND source = %s AND dimension = %s AND start >= %s AND start < %s "
        f"LIMIT {MAX_READ + 1}"
    )


def _groups_of(users: Collection[str]) -> dict[str, list[str]]:
    """The names of the groups that these users are members of now."""
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


def _busiest(found: dict[str, Course], names: Collection[str]) -> list[Course]:
    """By name, so that nothing moves under a reader's hand while the order of volumes changes."""
    chosen = sorted(found.values(), key=lambda each: (-each.total, each.name))[:MAX_DRAWN]
    idle = [Course(name) for name in sorted(names) if name not in found]
    return sorted([*chosen, *idle][:MAX_DRAWN], key=lambda each: each.name)
