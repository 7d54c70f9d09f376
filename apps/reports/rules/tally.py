"""Adding up what ended: counts and sketches for each value of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apps.reports.rules.coverage import DAY, HOUR, LEVELS, MINUTE, QUARTER, floor
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    ENDS,
    FLOW,
    HANDED_OUT,
    JOB,
    RETRIED,
    RETRIES,
    STEP,
    STEP_ENDED,
    TOTAL,
)
from apps.reports.rules.sketch import Sketch, bin_of

ALL, TYPE, EXECUTOR, HOST, WORKER = "all", "type", "executor", "host", "worker"
# Errors; values are those of `error_value`.
ERROR = "error"
# Errors kept apart in one bucket of some levels, for one type or task: without a limit there could
# be any number. Buckets of other levels are the plain sums of their parts.
MAX_ERRORS = 50
CAPPED = (MINUTE, QUARTER, HOUR, DAY)
# The key of all errors beyond the limit.
OTHER = "other"
# The dimensions of each source; the type of a dispatch is its task, of a run its flow, and of a
# step `flow/step`.
DIMENSIONS = {
    DISPATCH: (ALL, TYPE, EXECUTOR, ERROR),
    JOB: (ALL, TYPE, HOST, WORKER, ERROR),
    FLOW: (ALL, TYPE),
    STEP: (ALL, TYPE),
}

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
# in ms or None, run in ms or None, id): the columns read of a journal entry.
Entry: TypeAlias = tuple[Any, ...]
# (source, type or task, error key)
Error: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Tally:
    """Counts in the order of COUNTS, and the sketches of waiting and running times (ms)."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    wait: Sketch = field(default_factory=dict)
    run: Sketch = field(default_factory=dict)

    def merge(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        for mine, theirs in ((self.wait, other.wait), (self.run, other.run)):
            for number, count in theirs.items():
                mine[number] = mine.get(number, 0) + count


def error_value(type_: str, error_key: str) -> str:
    """The value in the dimension of errors; "" for none. `error_of` is the inverse."""
    return f"{type_}:{error_key}" if error_key else ""


def error_of(value: str) -> tuple[str, str]:
    """The type or task, and the key, of a value."""
    type_, _colon, key = value.rpartition(":")
    return type_, key


class Cells:
    """Counts the journal entries of one bucket.

    Entries with the same values share a cell; `tallies` spreads the cells over the dimensions.
    Errors are counted by minute, however long the bucket is: so the same errors are kept apart
    whether it is counted at once or summed from its parts. `minute_of` returns the start of the
    minute in which an id was made, in epoch seconds.
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
            values = entry[3:8] if entry[0] != STEP_ENDED else (STEP, *entry[4:8])
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
        """The tallies by source, dimension and value, for a bucket of that level. An end without a
        host, for example, has no tally in that dimension."""
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
        """Summed up from level to level, as stored buckets are."""
        buckets = {minute: summed([them], MINUTE) for minute, them in self._wrong.items()}
        for whole in LEVELS[1 : LEVELS.index(level) + 1]:
            parts: dict[int, list[Mapping[Key, Tally]]] = {}
            for start, tallies in sorted(buckets.items()):
                parts.setdefault(floor(start, whole), []).append(tallies)
            buckets = {start: summed(them, whole) for start, them in parts.items()}
        return merged(buckets.values())

    def spans(self) -> dict[Error, tuple[int, int]]:
        """The first and last entry id of each error that is kept apart in its minute."""
        found: dict[Error, tuple[int, int]] = {}
        for minute, spans in self._spans.items():
            kept = summed([self._wrong[minute]], MINUTE)
            for error, (first, last) in spans.items():
                source, type_, error_key = error
                if (source, ERROR, error_value(type_, error_key)) in kept:
                    widen(found, error, first, last)
        return found


def _count(tally: Tally, raised: tuple[int, ...], entry: Entry) -> None:
    for column in raised:
        tally.counts[column] += 1
    if raised[0] != _TOTAL:
        # The entry of a dispatch's end has its times again.
        return
    for sketch, ms in ((tally.wait, entry[9]), (tally.run, entry[10])):
        if ms is not None:
            number = bin_of(ms)
            sketch[number] = sketch.get(number, 0) + 1


def summed(parts: Iterable[Mapping[Key, Tally]], level: int) -> dict[Key, Tally]:
    """The tallies of a bucket of the level, from those of its parts."""
    return _capped(merged(parts)) if level in CAPPED else merged(parts)


def _capped(tallies: dict[Key, Tally]) -> dict[Key, Tally]:
    """Keep the MAX_ERRORS most frequent errors of each type or task; OTHER counts the rest."""
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
    """Extend the span of the error to `first` and `last`."""
    known = spans.get(error)
    spans[error] = (min(known[0], first), max(known[1], last)) if known else (first, last)


def merged(parts: Iterable[Mapping[Key, Tally]]) -> dict[Key, Tally]:
    """The sum of all these tallies."""
    found: dict[Key, Tally] = {}
    for tallies in parts:
        for key, tally in tallies.items():
            found.setdefault(key, Tally()).merge(tally)
    return found
