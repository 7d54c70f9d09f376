"""Adding up what ended: counts and histograms for each value of each dimension."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from apps.reports.rules import histogram
from apps.reports.rules.histogram import Histogram, bucket_of
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    ENDS,
    HANDED_OUT,
    JOB,
    RETRIED,
    TOTAL,
)

ALL, TYPE, EXECUTOR, HOST, WORKER = "all", "type", "executor", "host", "worker"
# By which each source is told apart; the type of a dispatch is its task.
DIMENSIONS = {DISPATCH: (ALL, TYPE, EXECUTOR), JOB: (ALL, TYPE, HOST, WORKER)}

_COLUMN = {name: position for position, name in enumerate(COUNTS)}
_TOTAL, _RETRIED = _COLUMN[TOTAL], _COLUMN[RETRIED]
_END_COLUMN = {entry: _COLUMN[counts_as] for entry, counts_as in ENDS.items()}

# (source, dimension, value)
Key: TypeAlias = tuple[str, str, str]


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

    def __getitem__(self, name: str) -> int:
        return self.counts[_COLUMN[name]]


class Tallies(dict[Key, Tally]):
    """The tallies of one stretch of time; a missing one is made."""

    def __missing__(self, key: Key) -> Tally:
        made = self[key] = Tally()
        return made

    def count(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Count entries of the journal, each (source, event, state before, state after, type or
        task, executor, worker, host, wait in ms or None, run, is it a retry)."""
        for entry in entries:
            source, _, _, _, type_, executor, worker, host, wait_ms, run_ms, is_retry = entry
            column = _END_COLUMN.get(entry[:4])
            if column is None:
                if is_retry and entry[:4] == HANDED_OUT:
                    for tally in self._told_of(source, type_, executor, worker, host):
                        tally.counts[_RETRIED] += 1
                continue
            wait = None if wait_ms is None else bucket_of(wait_ms)
            run = None if run_ms is None else bucket_of(run_ms)
            for tally in self._told_of(source, type_, executor, worker, host):
                counts = tally.counts
                counts[_TOTAL] += 1
                counts[column] += 1
                if wait is not None:
                    tally.wait[wait] = tally.wait.get(wait, 0) + 1
                if run is not None:
                    tally.run[run] = tally.run.get(run, 0) + 1

    def _told_of(
        self, source: str, type_: str, executor: str, worker: str, host: str
    ) -> list[Tally]:
        """Those that an entry belongs to. What ended without a host or worker has none."""
        told = [self[source, ALL, ""], self[source, TYPE, type_]]
        if source == JOB:
            if host:
                told.append(self[source, HOST, host])
            if worker:
                told.append(self[source, WORKER, worker])
        elif executor:
            told.append(self[source, EXECUTOR, executor])
        return told
