"""The present state of the platform: one fact sheet for the overview, /metrics and health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from apps.common import clock
from apps.common.leases import BEAT_SILENCE, SweepRun, last_beat, last_runs
from apps.dispatch.models import Dispatch
from apps.jobs.models import Worker
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import counts, living, protection, type_snapshots

# An overdue sweep is late by more than its period, and by more than any start may take.
_MIN_LATE = timedelta(seconds=5)


@dataclass(frozen=True)
class Status:
    """Facts as of `now`, each read when it is first used.

    `periods` are the seconds between two rounds of each sweep. The cost depends on the number of
    types, workers and sweeps, never on the number of jobs: counts end at a limit.
    """

    periods: Mapping[str, float]
    now: datetime

    @classmethod
    def read(cls, periods: Mapping[str, float]) -> Status:
        return cls(periods, clock.now())

    # --- jobs ---
    @cached_property
    def types(self) -> list[TypeSnapshot]:
        return type_snapshots.all_types()

    @property
    def type_names(self) -> list[str]:
        return [each.name for each in self.types]

    def jobs(self, limit: int) -> counts.Totals:
        """The number of jobs by state."""
        return counts.totals(limit)

    def jobs_by_type(self, limit: int) -> dict[str, counts.Counts]:
        """The number of open jobs by type and state."""
        return counts.counts_of(self.type_names, limit)

    @cached_property
    def oldest_due(self) -> counts.DueJob | None:
        """The ready job that has been due longest."""
        return counts.longest_due(self.type_names)

    @cached_property
    def oldest_due_by_type(self) -> dict[str, datetime]:
        """Since when the oldest of the first 1,000 ready jobs of each type has been due."""
        return counts.oldest_due(self.type_names)

    @cached_property
    def next_scheduled(self) -> datetime | None:
        """When the first scheduled job is due; in the past, promotion is late."""
        return counts.next_scheduled()

    @cached_property
    def breakers(self) -> dict[str, protection.BreakerNow]:
        """The breakers of the types that have one."""
        return protection.breakers(self.types, self.now)

    # --- dispatches ---
    def open_dispatches(self, limit: int) -> tuple[int, datetime | None]:
        """The number of open dispatches, and their earliest deadline."""
        return Dispatch.objects.in_flight(limit)

    # --- workers ---
    @cached_property
    def workers(self) -> list[Worker]:
        """The registered workers, lost ones included, by name."""
        return living.registered()

    @property
    def live_workers(self) -> list[Worker]:
        """Those with a recent heartbeat or call, draining and quiet ones included."""
        return [each for each in self.workers if living.is_there(each, self.now)]

    @property
    def active_workers(self) -> list[Worker]:
        """Those that take jobs."""
        return [each for each in self.live_workers if living.takes_jobs(each)]

    @property
    def quiet_workers(self) -> list[Worker]:
        """Those that take nothing new until an operator resumes them."""
        return [each for each in self.live_workers if each.is_quiet]

    @property
    def lost_workers(self) -> list[Worker]:
        return [each for each in self.workers if living.is_lost(each, self.now)]

    # --- sweeps ---
    @cached_property
    def sweeps(self) -> list[SweepRun]:
        """The last round of each sweep, by name."""
        return last_runs(self.periods, self.now)

    def is_overdue(self, sweep: SweepRun) -> bool:
        grace = max(_MIN_LATE, timedelta(seconds=self.periods[sweep.name]))
        return sweep.overdue is not None and sweep.overdue > grace

    @property
    def last_beat(self) -> datetime | None:
        """When any sweep last started: beat and a worker were running then."""
        return last_beat(self.sweeps)

    @property
    def is_beat_late(self) -> bool:
        last = self.last_beat
        return last is None or self.now - last > BEAT_SILENCE
