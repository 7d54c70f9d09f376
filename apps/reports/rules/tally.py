"""Adding up what ended: counts and histograms for each value of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apps.reports.rules.cover import DAY, HOUR, LEVELS, MINUTE, QUARTER, floor
from apps.reports.rules.histogram import Histogram, bucket_of
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    ENDS,
    HANDED_OUT,
    JOB,
    RETRIED,
    RETRIES,
    TOTAL,
)

ALL, TYPE, EXECUTOR, HOST, WORKER = "all", "type", "executor", "host", "worker"
# What went wrong in the same way: values are those of `error_value`.
ERROR = "error"
# In one stretch of some levels, of one type or task; what numbers and quotes make different may be
# endless. Stretches of other levels are the plain sums of their parts.
MAX_ERRORS = 50
CAPPED = (MINUTE, QUARTER, HOUR, DAY)
# In place of the key of an error: all that are not told apart.
OTHER = "other"
# By which each source is told apart; the type of a dispatch is its task.
DIMENSIONS = {DISPATCH: (ALL, TYPE, EXECUTOR, ERROR), JOB: (ALL, TYPE, HOST, WORKER, ERROR)}

_COLUMN = {name: position for position, name in enumerate(COUNTS)}
_TOTAL = _COLUMN[TOTAL]
# The columns that an entry raises, by its first four values.
_RAISED = {
    (*what, source): columns
    for (source, *what), columns in (
        *((entry, (_TOTAL, _COLUMN[counts_as])) for entry, counts_as in ENDS.items()),
        *((entry, (_COLUMN[RETRIED],)) for entry in RETRIES),
    )
}

# (source, dimension, value)
Key: TypeAlias = tuple[str, str, str]
# (event, state before, state after, source, type or task, executor, worker, host, error key, wait
# in ms or None, run in ms or None, id): what is read of an entry of the journal.
Entry: TypeAlias = tuple[Any, ...]
# (source, type or task, error key)
Error: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Tally:
    """Counts in the order of COUNTS, and how long it took to begin and to end (ms)."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    wait: Histogram = field(default_factory=dict)
    run: Histogram = field(default_factory=dict)

    def merge(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        for mine, theirs in ((self.wait, other.wait), (self.run, other.run)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count


def error_value(type_: str, error_key: str) -> str:
    """The value of the dimension of errors; "" for none. `error_of` takes it apart."""
    return f"{type_}:{error_key}" if error_key else ""


def error_of(value: str) -> tuple[str, str]:
    """Type or task, and the key."""
    type_, _colon, key = value.rpartition(":")
    return type_, key


class Cells:
    """What is counted of one stretch of time, entry by entry.

    Entries that share all their values are counted once, and spread over the dimensions at the end.
    Errors are counted minute by minute, however long the stretch is: so those that are told apart
    are the same whether it is counted at once or summed from its parts. `minute_of` gives the start
    of the minute that an entry's id was made in, in epoch seconds.
    """

    def __init__(self, minute_of: Callable[[int], int]) -> None:
        self.entries = 0
        self.handed_out = 0
        self._minute_of = minute_of
        self._cells: dict[tuple[str, ...], Tally] = {}
        self._wrong: dict[int, dict[Key, Tally]] = {}
        self._spans: dict[int, dict[Error, tuple[int, int]]] = {}

    def count(self, entries: Iterable[Entry]) -> None:
        cells = self._cells
        for entry in entries:
            self.entries += 1
            if entry[0] == HANDED_OUT:
                self.handed_out += 1
            raised = _RAISED.get(entry[:4])
            if raised is None:
                continue
            values = entry[3:8]
            cell = cells.get(values)
            if cell is None:
                cell = cells[values] = Tally()
            _count(cell, raised, entry)
            if entry[8] and raised[0] == _TOTAL:
                self._count_error(raised, entry)

    def _count_error(self, raised: tuple[int, ...], entry: Entry) -> None:
        source, type_, error_key = entry[3], entry[4], entry[8]
        minute = self._minute_of(entry[11])
        key = (source, ERROR, error_value(type_, error_key))
        _count(self._wrong.setdefault(minute, {}).setdefault(key, Tally()), raised, entry)
        spans = self._spans.setdefault(minute, {})
        widen(spans, (source, type_, error_key), entry[11], entry[11])

    def tallies(self, level: int) -> dict[Key, Tally]:
        """By source, dimension and value, of a stretch of that level. What ended without a host,
        say, is in the others."""
        found = self._errors(level)
        for (source, type_, executor, worker, host), cell in self._cells.items():
            values = {ALL: "", TYPE: type_, EXECUTOR: executor, WORKER: worker, HOST: host}
            for dimension in DIMENSIONS[source]:
                value = values.get(dimension, "")
                if value or dimension == ALL:
                    key = (source, dimension, value)
                    found.setdefault(key, Tally()).merge(cell)
        return found

    def _errors(self, level: int) -> dict[Key, Tally]:
        """Summed up from level to level, as stored stretches are."""
        stretches = {minute: summed([them], MINUTE) for minute, them in self._wrong.items()}
        for whole in LEVELS[1 : LEVELS.index(level) + 1]:
            parts: dict[int, list[Mapping[Key, Tally]]] = {}
            for start, tallies in sorted(stretches.items()):
                parts.setdefault(floor(start, whole), []).append(tallies)
            stretches = {start: summed(them, whole) for start, them in parts.items()}
        return merged(stretches.values())

    def spans(self) -> dict[Error, tuple[int, int]]:
        """The first and last id of the entries with each error that is told apart in its minute."""
        found: dict[Error, tuple[int, int]] = {}
        for minute, spans in self._spans.items():
            told = summed([self._wrong[minute]], MINUTE)
            for error, (first, last) in spans.items():
                source, type_, error_key = error
                if (source, ERROR, error_value(type_, error_key)) in told:
                    widen(found, error, first, last)
        return found


def _count(tally: Tally, raised: tuple[int, ...], entry: Entry) -> None:
    for column in raised:
        tally.counts[column] += 1
    if raised[0] != _TOTAL:
        # The times of a dispatch are told again at its end.
        return
    for histogram_, ms in ((tally.wait, entry[9]), (tally.run, entry[10])):
        if ms is not None:
            bucket = bucket_of(ms)
            histogram_[bucket] = histogram_.get(bucket, 0) + 1


def summed(parts: Iterable[Mapping[Key, Tally]], level: int) -> dict[Key, Tally]:
    """The tallies of a stretch of the level, from those of its parts."""
    return _capped(merged(parts)) if level in CAPPED else merged(parts)


def _capped(tallies: dict[Key, Tally]) -> dict[Key, Tally]:
    """The same, in which at most MAX_ERRORS of a type or task are told apart, the most frequent
    ones; all others together are OTHER."""
    by_type: dict[tuple[str, str], list[Key]] = {}
    for key in tallies:
        source, dimension, value = key
        if dimension == ERROR:
            type_, error_key = error_of(value)
            if error_key != OTHER:
                by_type.setdefault((source, type_), []).append(key)
    for (source, type_), keys in by_type.items():
        if len(keys) > MAX_ERRORS:
            keys.sort(key=lambda key: (-tallies[key].counts[_TOTAL], key))
            rest = tallies.setdefault((source, ERROR, error_value(type_, OTHER)), Tally())
            for key in keys[MAX_ERRORS:]:
                rest.merge(tallies.pop(key))
    return tallies


def widen(spans: dict[Error, tuple[int, int]], error: Error, first: int, last: int) -> None:
    """Let the span of the error reach from `first` to `last` at least."""
    known = spans.get(error)
    spans[error] = (min(known[0], first), max(known[1], last)) if known else (first, last)


def merged(stretches: Iterable[Mapping[Key, Tally]]) -> dict[Key, Tally]:
    """The tallies of all these stretches together."""
    found: dict[Key, Tally] = {}
    for tallies in stretches:
        for key, tally in tallies.items():
            found.setdefault(key, Tally()).merge(tally)
    return found
