"""Adding up what ended: counts and histograms for each value of each dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apps.reports.rules import histogram
from apps.reports.rules.histogram import Histogram, bucket_of
from apps.reports.rules.outcomes import COUNTS, DISPATCH, ENDS, JOB, RETRIED, RETRIES, TOTAL

ALL, TYPE, EXECUTOR, HOST, WORKER = "all", "type", "executor", "host", "worker"
# By which each source is told apart; the type of a dispatch is its task.
DIMENSIONS = {DISPATCH: (ALL, TYPE, EXECUTOR), JOB: (ALL, TYPE, HOST, WORKER)}

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
# (event, state before, state after, source, type or task, executor, worker, host, wait in ms or
# None, run in ms or None): what is read of an entry of the journal.
Entry: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class Tally:
    """Counts in the order of COUNTS, and how long it took to begin and to end (ms)."""

    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    wait: Histogram = field(default_factory=dict)
    run: Histogram = field(default_factory=dict)

    def add(self, counts: Iterable[int], wait: bytes, run: bytes) -> None:
        """Add a row of totals, its histograms packed."""
        self.counts = [mine + more for mine, more in zip(self.counts, counts, strict=True)]
        histogram.merge(self.wait, wait)
        histogram.merge(self.run, run)

    def merge(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        for mine, theirs in ((self.wait, other.wait), (self.run, other.run)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count


class Cells:
    """What is counted of one stretch of time, entry by entry.

    Entries that share all their values are counted once, and spread over the dimensions at the end.
    """

    def __init__(self) -> None:
        self.entries = 0
        self._cells: dict[tuple[str, ...], Tally] = {}

    def count(self, entries: Iterable[Entry]) -> None:
        cells = self._cells
        for entry in entries:
            self.entries += 1
            raised = _RAISED.get(entry[:4])
            if raised is None:
                continue
            values = entry[3:8]
            cell = cells.get(values)
            if cell is None:
                cell = cells[values] = Tally()
            counts = cell.counts
            for column in raised:
                counts[column] += 1
            if raised[0] != _TOTAL:
                # The times of a dispatch are told again at its end.
                continue
            if entry[8] is not None:
                wait, bucket = cell.wait, bucket_of(entry[8])
                wait[bucket] = wait.get(bucket, 0) + 1
            if entry[9] is not None:
                run, bucket = cell.run, bucket_of(entry[9])
                run[bucket] = run.get(bucket, 0) + 1

    def tallies(self) -> dict[Key, Tally]:
        """By source, dimension and value. What ended without a host, say, is in the others."""
        found: dict[Key, Tally] = {}
        for (source, type_, executor, worker, host), cell in self._cells.items():
            values = {ALL: "", TYPE: type_, EXECUTOR: executor, WORKER: worker, HOST: host}
            for dimension in DIMENSIONS[source]:
                value = values[dimension]
                if value or dimension == ALL:
                    key = (source, dimension, value)
                    found.setdefault(key, Tally()).merge(cell)
        return found


def merged(stretches: Iterable[Mapping[Key, Tally]]) -> dict[Key, Tally]:
    """The tallies of all these stretches together."""
    found: dict[Key, Tally] = {}
    for tallies in stretches:
        for key, tally in tallies.items():
            found.setdefault(key, Tally()).merge(tally)
    return found
