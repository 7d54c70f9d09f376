"""Why work fails for good: the errors of the last week, each over all job types and tasks.

An error is the same wherever its text differs only in numbers, ids and quoted words. Whoever may
see only some types or tasks sees the parts of these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from apps.common import clock, ids
from apps.common.db import fetch_each, force_index, table
from apps.common.ttl_cache import TTLCache
from apps.jobs.handlers import Retry
from apps.journal.services import error_key
from apps.journal.services.minutes import second_of
from apps.reports.models import ErrorGroup, Rollup
from apps.reports.rules.coverage import HOUR, MINUTE, BucketRun, snapped
from apps.reports.rules.outcomes import JOB, SOURCES
from apps.reports.rules.tally import ERROR, OTHER, Error, error_of, error_value
from apps.reports.services.coverage import Stored
from apps.reports.services.failures import group_columns
from apps.reports.services.rows import Selection, run_conditions

# The longest comes first.
LENGTHS = (timedelta(days=7), timedelta(hours=24), timedelta(hours=1))
# Steps of the picture of a day.
STEPS = 24
_FINAL = "failed + timed_out + expired"
# The most parts that are read of errors in very many types or tasks.
_MAX_PARTS = 500


@cache
def _own() -> set[str]:
    """Errors of the platform itself, where a handler has given no reason."""
    return {error_key(str(Retry())), OTHER}


class Part(NamedTuple):
    """A cause in one job type or task: how often work failed for good within each of LENGTHS, when
    it failed like this first and last, and the newest text with its job or dispatch."""

    source: str
    type_or_task: str
    counts: tuple[int, ...]
    first_seen: datetime
    last_seen: datetime
    sample: str
    subject_id: int


class Cause(NamedTuple):
    """An error with its parts, that with most failures first."""

    key: str
    parts: tuple[Part, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How often work failed for good within each of LENGTHS."""
        return tuple(map(sum, zip(*(part.counts for part in self.parts), strict=True)))

    @property
    def newest(self) -> Part:
        return max(self.parts, key=lambda part: part.last_seen)

    @property
    def first_seen(self) -> datetime:
        return min(part.first_seen for part in self.parts)

    @property
    def last_seen(self) -> datetime:
        return self.newest.last_seen

    @property
    def types(self) -> list[str]:
        """The job types among its parts."""
        return [part.type_or_task for part in self.parts if part.source == JOB]

    @property
    def errors(self) -> list[Error]:
        return [(part.source, part.type_or_task, self.key) for part in self.parts]

    def only(self, sees: Callable[[str, str], bool]) -> Cause | None:
        """The cause with the parts that somebody sees, by source and name; None without any."""
        parts = tuple(part for part in self.parts if sees(part.source, part.type_or_task))
        return Cause(self.key, parts) if parts else None

    def lately(self, type_: str) -> tuple[int, ...]:
        """How often jobs of the type failed for good within each of LENGTHS, the shortest first."""
        counts = [p.counts for p in self.parts if (p.source, p.type_or_task) == (JOB, type_)]
        return tuple(reversed(counts[0])) if counts else ()


# They change once a minute, and to read a week of a large platform takes a while.
found: TTLCache[list[Cause]] = TTLCache(20.0)


def causes() -> list[Cause]:
    """The causes of failures of the last week, for everybody; a minute or two old, as the
    totals."""
    return found.get("", lambda: read(clock.now()))


def read(now: datetime) -> list[Cause]:
    """Read the causes of the week before an instant, as far as it is added up."""
    stored = Stored.read()
    if stored.beginning is None or stored.end is None:
        return []
    return _made(_counted(stored, second_of(now)))


def causes_by_key(keys: Iterable[str]) -> list[Cause]:
    """The causes with these keys, however long ago they were seen, without counts; errors that are
    kept no longer are left out."""
    rows = ErrorGroup.objects.filter(error_key__in=[*keys]).order_by("-last_entry")
    names = rows.values_list("source", "type_or_task", "error_key")[:_MAX_PARTS]
    return _made({name: [0] * len(LENGTHS) for name in names})


def _made(counted: Mapping[Error, Sequence[int]]) -> list[Cause]:
    parts: dict[str, list[Part]] = {}
    columns = ("first_entry", "last_entry", "sample", "subject_id")
    for (source, name, key), (first, last, sample, subject_id) in group_columns(counted, *columns):
        # An hour is part of its day, and the day of its week.
        counts = tuple(accumulate(reversed(counted[source, name, key])))[::-1]
        seen = ids.made_at(first), ids.made_at(last)
        parts.setdefault(key, []).append(Part(source, name, counts, *seen, sample, subject_id))
    return [
        Cause(key, tuple(sorted(some, key=lambda part: (*(-n for n in part.counts), part[:2]))))
        for key, some in parts.items()
    ]


def _counted(stored: Stored, now: int) -> dict[Error, list[int]]:
    """How often each error was final in three spans: the week without its last day, this day
    without its last hour, and this hour."""
    lengths = [int(length.total_seconds()) for length in LENGTHS]
    edges = [snapped(now - length, stored.kept_from) for length in lengths] + [now]
    first, last = stored.beginning or 0, stored.end or 0
    spans = [(max(low, first), min(high, last)) for low, high in pairwise(edges)]
    runs, _left = stored.cover([span for span in spans if span[0] < span[1]])
    columns = f"source, value, start, {_FINAL}"
    parts = (
        (
            f"SELECT {columns} FROM {table(Rollup)}{force_index('PRIMARY')} WHERE {chosen} "
            f"AND dimension = '{ERROR}' AND source IN ('{SOURCES[0]}', '{SOURCES[1]}') "
            f"AND {_FINAL} > 0",
            parameters,
        )
        for chosen, parameters in run_conditions(runs)
    )
    counted: dict[Error, list[int]] = {}
    for source, value, start, final in fetch_each(parts):
        name, key = error_of(value)
        if key not in _own():
            counts = counted.setdefault((source, name, key), [0] * len(LENGTHS))
            counts[bisect_right(edges, start) - 1] += final
    return counted


def day_of(cause: Cause, now: datetime) -> list[int]:
    """How often it made work fail for good in each hour of the last day, the newest last."""
    stored = Stored.read()
    until = second_of(now)
    edges = [until - HOUR * back for back in range(STEPS, 0, -1)]
    edges = [snapped(edge, stored.kept_from) for edge in edges]
    first, last = stored.beginning or 0, stored.end or 0
    spans = [(max(low, first), min(high, last)) for low, high in pairwise([*edges, until])]
    runs, _left = stored.cover([span for span in spans if span[0] < span[1]])
    steps = [0] * STEPS
    for start, final in _finals(runs, cause.errors):
        steps[bisect_right(edges, start) - 1] += final
    return steps


def came_back(solved: Mapping[str, datetime]) -> set[str]:
    """The keys of the `solved` causes that have made work fail for good since they were solved:
    from the minute after that on."""
    wanted: dict[str, list[Error]] = {}
    rows = ErrorGroup.objects.filter(error_key__in=[*solved])
    for source, name, key, entry in rows.values_list(
        "source", "type_or_task", "error_key", "last_entry"
    ):
        # Most have not been seen at all.
        if ids.made_at(entry) > solved[key]:
            wanted.setdefault(key, []).append((source, name, key))
    stored = Stored.read() if wanted else None
    if stored is None or stored.beginning is None or stored.end is None:
        return set()
    back = set()
    for key, errors in wanted.items():
        start = snapped(second_of(solved[key]) + MINUTE, stored.kept_from)
        if start < stored.end:
            runs, _left = stored.cover([(max(start, stored.beginning), stored.end)])
            if any(final for _start, final in _finals(runs, errors)):
                back.add(key)
    return back


def _finals(runs: Sequence[BucketRun], errors: Iterable[Error]) -> Iterable[tuple[int, Any]]:
    """The start of each bucket with how often these errors were final in it."""
    values: dict[str, list[str]] = {}
    for source, name, key in errors:
        values.setdefault(source, []).append(error_value(name, key))
    for source, some in values.items():
        yield from Selection(source, ERROR, tuple(some)).select(f"start, {_FINAL}", runs)
