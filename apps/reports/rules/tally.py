"""Adding up what ended: counts and histograms for each value of each dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
    `errors` has the first and last id of the entries with each error.
    """

    def __init__(self) -> None:
        self.entries = 0
        self.handed_out = 0
        self.errors: dict[Error, tuple[int, int]] = {}
        self._cells: dict[tuple[str, ...], Tally] = {}

    def count(self, entries: Iterable[Entry]) -> None:
        cells = self._cells
        for entry in entries:
            self.entries += 1
            if entry[0] == HANDED_OUT:
                self.handed_out += 1
            raised = _RAISED.get(entry[:4])
            if raised is None:
                continue
            values = entry[3:9]
            cell = cells.get(values)
            if cell is None:
                cell = cells[values] = Tally()
            counts = cell.counts
            for column in raised:
                counts[column] += 1
            if raised[0] != _TOTAL:
                # The times of a dispatch are told again at its end.
                continue
            if entry[9] is not None:
                wait, bucket = cell.wait, bucket_of(entry[9])
                wait[bucket] = wait.get(bucket, 0) + 1
            if entry[10] is not None:
                run, bucket = cell.run, bucket_of(entry[10])
                run[bucket] = run.get(bucket, 0) + 1
            if entry[8]:
                error = (entry[3], entry[4], entry[8])
                widen(self.errors, error, entry[11], entry[11])

    def tallies(self) -> dict[Key, Tally]:
        """By source, dimension and value. What ended without a host, say, is in the others."""
        found: dict[Key, Tally] = {}
        for (source, type_, executor, worker, host, key_), cell in self._cells.items():
            values = {
                ALL: "",
                TYPE: type_,
                EXECUTOR: executor,
                WORKER: worker,
                HOST: host,
                ERROR: error_value(type_, key_),
            }
            for dimension in DIMENSIONS[source]:
                value = values[dimension]
                if value or dimension == ALL:
                    key = (source, dimension, value)
                    found.setdefault(key, Tally()).merge(cell)
        return found


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
