"""The facts that a worker loop read a moment ago, and need not read again."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from apps.common.db import fetch_each, force_index, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import READY
from apps.jobs.rules.type_snapshot import TypeSnapshot

# The shortest and longest pause between two looks of a busy worker at which of its types have work.
# A look takes long with many types, or on a busy machine; at most a tenth of the time goes into it.
LOOK_SECONDS = (0.05, 1.0)
_LOOK_PAUSE = 10
# How often a worker counts the running jobs of a type while it only fills places that it freed.
COUNT_SECONDS = 1.0
# How long a worker that lost jobs to others looks for jobs that no other is just taking.
CONTESTED_SECONDS = 5.0


class RecentWork:
    """The types of one worker loop that had ready jobs a moment ago.

    A look at each of some hundred types takes longer than to hold and settle a job. So types
    without ready jobs are looked at only at intervals, or when no other type has one. Places of
    types with a maximum running are kept, too: the loop may fill a place that it has freed itself
    without a count.
    """

    def __init__(self) -> None:
        self._found = set[str]()
        self._until = 0.0
        self._counted: dict[str, tuple[int, float]] = {}
        self._contested: dict[str, float] = {}
        # How often other workers were faster.
        self.losses = 0

    def lately(self, names: Collection[str]) -> set[str]:
        """The types that had a ready job; empty when it is time to look again."""
        return self._found.intersection(names) if time.monotonic() < self._until else set()

    def types_with_work(self, names: Collection[str], hosts: Sequence[str]) -> set[str]:
        """The types that have a ready job for these hosts."""
        began = time.monotonic()
        self._found = types_with_work(names, hosts)
        now = time.monotonic()
        least, most = LOOK_SECONDS
        self._until = now + min(most, max(least, _LOOK_PAUSE * (now - began)))
        return self._found

    def note_counted(self, types: Iterable[TypeSnapshot]) -> None:
        """Note that the running jobs of these types have been counted under the lock."""
        until = time.monotonic() + COUNT_SECONDS
        for type_ in types:
            self._counted[type_.name] = (type_.version, until)

    def has_counted(self, type_: TypeSnapshot) -> bool:
        """Whether running jobs of the type were counted a moment ago, with the same limit."""
        version, until = self._counted.get(type_.name, (0, 0.0))
        return version == type_.version and time.monotonic() < until

    def note_lost(self, names: Iterable[str]) -> None:
        """Note that other workers took jobs of these types which this one had found."""
        self.losses += 1
        until = time.monotonic() + CONTESTED_SECONDS
        self._contested.update(dict.fromkeys(names, until))

    def is_contested(self, name: str) -> bool:
        """Whether other workers took jobs of the type a moment ago."""
        return time.monotonic() < self._contested.get(name, 0.0)


def types_with_work(names: Collection[str], hosts: Sequence[str] | None = None) -> set[str]:
    """The types with at least one ready job for these hosts, None for any; one read for each."""
    only = "" if hosts is None else f" AND affinity_host IN ({placeholders(len(hosts))})"
    # By the statistics of an empty queue, MySQL would read the ready jobs of all types.
    jobs = f"{table(Job)}{force_index('job_claim')}"
    one = f"SELECT type FROM {jobs} WHERE status = %s AND type = %s{only} LIMIT 1"
    return {row[0] for row in fetch_each((one, (READY, name, *(hosts or ()))) for name in names)}
