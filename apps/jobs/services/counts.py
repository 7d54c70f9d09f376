"""How many jobs of a type wait and run, and since when, read no further than anybody wants to
know: what these statements cost depends on the types, not on the jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from apps.common.db import fetch, fetch_each, force_index, instant, table
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t

MAX_COUNTED = 1_000
# SQLite has no index of scheduled and running jobs by type: of so many in the state it counts.
_MAX_SORTED = 50_000
# Of the jobs in line, whose due times are looked at.
_FIRST = 1_000
# SQLite takes 500 parts of one statement.
_AT_ONCE = 150


@dataclass(frozen=True, kw_only=True)
class Counts:
    ready: int = 0
    scheduled: int = 0
    running: int = 0


def counts_of(types: Sequence[str], most: int | None = None) -> dict[str, Counts]:
    """The open jobs of all these types, each count up to `most` (MAX_COUNTED).

    Besides, SQLite counts scheduled and running ones among the first 50,000 in that state.
    """
    most = MAX_COUNTED if most is None else most
    ready = _by_type(t.READY, types, most)
    if connection.vendor == "mysql":
        scheduled, running = (_by_type(s, types, most) for s in (t.SCHEDULED, t.RUNNING))
    else:
        scheduled, running = (_sorted(s, most) for s in (t.SCHEDULED, t.RUNNING))
    return {
        name: Counts(ready=ready[name], scheduled=scheduled[name], running=running[name])
        for name in types
    }


def _by_type(status: str, types: Sequence[str], most: int) -> Counter[str]:
    """One range of the claim index for each type. The states are literals, without which SQLite
    would not use its partial indexes."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    one = (
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {jobs} "
        f"WHERE status = '{status}' AND type = %s LIMIT {most}) counted)"
    )
    found: Counter[str] = Counter()
    for some in _some(types):
        [row] = fetch(f"SELECT {', '.join([one] * len(some))}", some)
        found.update(dict(zip(some, row, strict=True)))
    return found


def _sorted(status: str, most: int) -> Counter[str]:
    rows = fetch(
        f"SELECT type, COUNT(*) FROM (SELECT type FROM {table(Job)} "
        f"WHERE status = '{status}' LIMIT {_MAX_SORTED}) counted GROUP BY type"
    )
    return Counter({name: min(most, count) for name, count in rows})


class Standing(NamedTuple):
    """How many jobs of all types stand in these states, each up to a limit."""

    ready: int
    scheduled: int
    running: int
    failed: int


def standing(most: int) -> Standing:
    """All types together.

    Whether there are `most` is asked first: a count of the first so many would be written to a
    table and read again.
    """
    # The narrowest index that begins with the status.
    jobs = f"{table(Job)}{force_index('job_due')}"
    these = f"FROM {jobs} WHERE status = '{{0}}'"
    count = (
        f"COALESCE((SELECT {most} {these} LIMIT 1 OFFSET {most - 1}), (SELECT COUNT(*) {these}))"
    )
    states = (t.READY, t.SCHEDULED, t.RUNNING, t.FAILED)
    [found] = fetch(f"SELECT {', '.join(map(count.format, states))}")
    return Standing(*found)


class Due(NamedTuple):
    """A ready job, and since when it could have run."""

    number: int
    type: str
    since: datetime


def longest_due(types: Sequence[str]) -> Due | None:
    """The ready job that has been due for longest.

    MariaDB/MySQL finds it by one entry of an index. SQLite has none of ready jobs by time and looks
    at the first 1,000 in line of each of the types.
    """
    if connection.vendor == "mysql":
        one = (
            f"SELECT id, type, run_at FROM {table(Job)}{force_index('job_due')} "
            f"WHERE status = '{t.READY}' ORDER BY run_at, id LIMIT 1"
        )
        found = fetch(one)
    else:
        one = (
            f"SELECT * FROM (SELECT id, type, run_at FROM {table(Job)} "
            f"WHERE status = '{t.READY}' AND type = %s "
            f"ORDER BY affinity_host, order_key, id LIMIT {_FIRST})"
        )
        found = [
            row
            for some in _some(types)
            for row in fetch(
                f"{' UNION ALL '.join([one] * len(some))} ORDER BY run_at, id LIMIT 1", some
            )
        ]
    due = [Due(number, name, instant(run_at)) for number, name, run_at in found]
    return min(due, key=lambda each: (each.since, each.number), default=None)


def oldest_due(types: Sequence[str]) -> dict[str, datetime]:
    """Since when the longest-waiting one of the first 1,000 ready jobs in line could have run, of
    the types that have any."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    one = (
        f"SELECT %s AS type, MIN(run_at) AS due FROM (SELECT run_at FROM {jobs} "
        f"WHERE status = '{t.READY}' AND type = %s "
        f"ORDER BY affinity_host, order_key, id LIMIT {_FIRST}) line"
    )
    rows = fetch_each((one, (name, name)) for name in types)
    return {name: instant(due) for name, due in rows if due is not None}


def next_scheduled() -> datetime | None:
    """When the first scheduled job is due; when that is past, promotion lags so far behind."""
    rows = fetch(
        f"SELECT run_at FROM {table(Job)} WHERE status = '{t.SCHEDULED}' "
        "ORDER BY run_at, id LIMIT 1"
    )
    return instant(rows[0][0]) if rows else None


def _some(types: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(types), _AT_ONCE):
        yield list(types[start : start + _AT_ONCE])
