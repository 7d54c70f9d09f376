"""How work went in the last hour, from the totals of closed minutes.

Everything here is of the time before `closed_until()`, the end of the newest minute that is added
up. So it changes once a minute, and whoever has it need not ask again before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models

from apps.common import ids
from apps.common.db import fetch, fetch_each, marks, table
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
from apps.reports.services.stored import Chosen, Counted, rows_in
from apps.reports.services.stretches import cover_by_stored, instant_of, second_of, stored_to

MINUTES = HOUR // MINUTE
# Rates are of so many minutes: one alone says little where little happens.
FLOW = timedelta(minutes=5)
MOST_DRAWN = 12
# Rows of totals that the courses of types or groups are made of at most.
MOST_READ = 20_000
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


def came_in(model: type[models.Model], until: datetime, most: int) -> int:
    """How many rows of dispatches or jobs were made in FLOW before `until`, at most so many."""
    made = f"FROM {table(model)} WHERE id >= %s AND id < %s"
    between = [ids.lowest_id_at(until - FLOW), ids.lowest_id_at(until)]
    # A count of the first so many would be written to a table and read again.
    [(count,)] = fetch(
        f"SELECT COALESCE((SELECT {most:d} {made} LIMIT 1 OFFSET {most - 1:d}), "
        f"(SELECT COUNT(*) {made}))",
        [*between, *between],
    )
    return int(count)


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
        for row in rows_in(chosen, runs):
            rows[source][row.start >= middle].append(row.counted)
    return {
        source: (_went(source, last), _went(source, before))
        for source, (before, last) in rows.items()
    }


def _went(source: str, rows: Sequence[Counted]) -> Went:
    counts = {name: sum(row.counts[place] for row in rows) for place, name in enumerate(COUNTS)}
    [wait_p95] = percentiles([row.wait for row in rows], (0.95,))
    [run_p95] = percentiles([row.run for row in rows], (0.95,))
    return Went(
        ended=sum(counts[each] for each in _ENDS[source]),
        success_rate=success_rate(**{each: counts[each] for each in (SUCCEEDED, *_UNLUCKY)}),
        wait_p95=wait_p95,
        run_p95=run_p95,
    )


# --- minute by minute -----------------------------------------------------------------------------
def course_of_all(source: str, until: datetime) -> Course:
    """Everything of a source."""
    return _courses(_rows(source, ALL, until), until).get("", Course(""))


def courses_of_types(until: datetime, names: Collection[str]) -> list[Course] | None:
    """Those of the busiest job types, by name, and of idle ones among `names` as long as few are
    busy. None when more rows of totals would have to be read than MOST_READ."""
    rows = _rows(JOB, TYPE, until)
    return None if len(rows) > MOST_READ else _busiest(_courses(rows, until), names)


def courses_of_groups(
    until: datetime, names: Collection[str], *, only: Collection[str] | None = None
) -> list[Course] | None:
    """Those of groups: what their present members were handed out. `only` some, by their names;
    else as `courses_of_types`."""
    rows = _rows(DISPATCH, EXECUTOR, until)
    if len(rows) > MOST_READ:
        return None
    groups = _groups_of({row[0] for row in rows})
    of_groups = [
        (group, *counted)
        for user, *counted in rows
        for group in groups.get(user, ())
        if only is None or group in only
    ]
    return _busiest(_courses(of_groups, until), names)


def _groups_of(users: Collection[str]) -> dict[str, list[str]]:
    """The names of the groups that these users are members of now."""
    named = sorted(users)
    parts = (named[at : at + _NAMED_AT_ONCE] for at in range(0, len(named), _NAMED_AT_ONCE))
    select = (
        f"SELECT u.name, g.name FROM {table(Executor)} u "  # noqa: S608
        f"JOIN {table(Membership)} m ON m.user_id = u.id "
        f"JOIN {table(Executor)} g ON g.id = m.group_id WHERE u.name IN "
    )
    found: dict[str, list[str]] = {}
    for user, group in fetch_each((f"{select}({marks(len(some))})", some) for some in parts):
        found.setdefault(user, []).append(group)
    return found


def _rows(source: str, dimension: str, until: datetime) -> list[tuple[Any, ...]]:
    """Of each value and minute what ended, was unlucky and succeeded; one row more than MOST_READ
    where there are too many."""
    end = second_of(until)
    sums = (" + ".join(names) for names in (_ENDS[source], _UNLUCKY, (SUCCEEDED,)))
    return fetch(
        f"SELECT value, start, {', '.join(sums)} FROM {table(Rollup)} "  # noqa: S608
        "WHERE level = %s AND source = %s AND dimension = %s AND start >= %s AND start < %s "
        f"LIMIT {MOST_READ + 1}",
        [MINUTE, source, dimension, end - HOUR, end],
    )


def _courses(rows: Sequence[tuple[Any, ...]], until: datetime) -> dict[str, Course]:
    first = second_of(until) - HOUR
    found: dict[str, Course] = {}
    for name, start, ended, unlucky, succeeded in rows:
        course = found.get(name)
        if course is None:
            course = found[name] = Course(name)
        minute = (start - first) // MINUTE
        course.ended[minute] += ended
        course.unlucky[minute] += unlucky
        course.succeeded[minute] += succeeded
    return found


def _busiest(found: dict[str, Course], names: Collection[str]) -> list[Course]:
    """By name, so that nothing moves under a reader's hand while the order of volumes changes."""
    chosen = sorted(found.values(), key=lambda each: (-each.total, each.name))[:MOST_DRAWN]
    idle = [Course(name) for name in sorted(names) if name not in found]
    return sorted([*chosen, *idle][:MOST_DRAWN], key=lambda each: each.name)
