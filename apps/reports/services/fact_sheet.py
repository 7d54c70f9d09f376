"""The present state of the platform: one fact sheet for overview, /metrics, health and alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Model

from apps.common import clock, partitions
from apps.common.leases import BEAT_SILENCE, SweepRun, last_beat, last_runs
from apps.common.partitions import Partition
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Dispatch, OnceTask
from apps.dispatch.models.dispatch import InFlight
from apps.dispatch.services.availability import read_availability
from apps.flows.services import figures as runs
from apps.jobs.models import Worker
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import counts, living, protection, type_snapshots
from apps.reports.services import last_minutes
from apps.reports.services.coverage import Stored
from apps.schedules.services import ends

# An overdue sweep is late by more than its period, and by more than any start may take.
_MIN_LATE = timedelta(seconds=5)
# The time over which the share of failures is taken; and how many entries are read for the ends
# that no total has yet.
LATELY = timedelta(minutes=15)
_MAX_READ = 5_000
# Schedules in trouble that are read.
MAX_IN_TROUBLE = 1_000
# How soon a quota ends that should be nearly handed out; and that of those that are read, and how
# many of them.
ENDING = timedelta(minutes=60)
ENDING_SOON = timedelta(hours=2)
MAX_ENDING = 1_000
# How long a failed run is a problem, as errors of jobs are; and how many runs are read or counted.
FAILED_FOR = timedelta(days=7)
MAX_RUNS = 1_000
MAX_RUNS_COUNTED = 10_000


@dataclass(frozen=True)
class FactSheet:
    """Facts as of `now`, each read when it is first used.

    The cost depends on the number of types, workers and sweeps, never on the number of jobs: counts
    end at a limit.
    """

    # The seconds between two rounds of each sweep.
    periods: Mapping[str, float]
    now: datetime
    # The job type of a sheet about one; it shares the totals with the sheet about all types.
    only: str = ""
    # Facts that were read already, by their limit or table.
    _by_type: dict[int, dict[str, counts.Counts]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _in_flight: dict[int, InFlight] = field(default_factory=dict, repr=False, compare=False)
    _partitions: dict[type[Model], list[Partition]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def keep(self, name: str, read: Callable[[], Any]) -> Any:
        """A fact that only one watch knows, which an alert on it asks for again."""
        if name not in self._kept:
            self._kept[name] = read()
        return self._kept[name]

    # --- jobs ---
    @cached_property
    def types(self) -> list[TypeSnapshot]:
        known = type_snapshots.all_types()
        return [each for each in known if each.name == self.only] if self.only else known

    @property
    def type_names(self) -> list[str]:
        return [each.name for each in self.types]

    def ready(self, limit: int) -> int:
        """How many jobs are ready, up to a limit; asked for only where the counts by type do not
        tell, because some of them end at their own limit and are less together."""
        by_type = self.ready_by_type
        if by_type.total() >= limit or all(n < counts.MAX_COUNTED for n in by_type.values()):
            return min(limit, by_type.total())
        return counts.ready_in_all(limit)

    def jobs_by_type(self, limit: int) -> dict[str, counts.Counts]:
        """The number of open jobs by type and state."""
        if limit not in self._by_type:
            self._by_type[limit] = counts.counts_of(self.type_names, limit)
        return self._by_type[limit]

    @cached_property
    def oldest_due_by_type(self) -> dict[str, datetime]:
        """Since when the oldest of the first 25 ready jobs of each type has been due."""
        return counts.oldest_due(self.type_names)

    @cached_property
    def next_scheduled(self) -> datetime | None:
        """When the first scheduled job is due; in the past, promotion is late."""
        return counts.next_scheduled()

    @cached_property
    def breakers(self) -> dict[str, protection.BreakerNow]:
        """The breakers of the types that have one."""
        return protection.breakers(self.types, self.now)

    @cached_property
    def ended_lately(self) -> dict[str, last_minutes.Ends]:
        """The jobs that ended in the last LATELY, by type."""
        if self.only:
            return current_sheet().ended_lately
        return last_minutes.ends_by_type(self.now - LATELY, self._minutes, self.unsummed)

    @cached_property
    def _minutes(self) -> last_minutes.TypeMinutes:
        since = self.now - LATELY
        return last_minutes.type_minutes(since, self.now, self.stored, self.unsummed)

    @cached_property
    def ready_by_type(self) -> Counter[str]:
        """How many jobs of each type are ready, up to counts.MAX_COUNTED."""
        return counts.ready_of(self.type_names)

    @cached_property
    def growing(self) -> dict[str, int]:
        """How many jobs are ready, up to counts.MAX_COUNTED, of the types of which more came than
        ended in the last minutes."""
        ready = self.ready_by_type
        if not ready.total():
            return {}
        return {name: ready[name] for name, each in self.rates.items() if each.came > each.ended}

    @cached_property
    def rates(self) -> dict[str, last_minutes.Rates]:
        """How many jobs came and ended a minute in the last minutes, by type."""
        if self.only:
            return current_sheet().rates
        return last_minutes.rates_by_type(self.now, self.stored, self._minutes, self.unsummed)

    @cached_property
    def unserved(self) -> list[TypeSnapshot]:
        """The types that lack a worker."""
        return living.missing(self.types, self.active_workers, ready=self.ready_by_type)

    # --- dispatches ---
    def open_dispatches(self, limit: int) -> InFlight:
        """The open dispatches, each count up to the limit."""
        if limit not in self._in_flight:
            self._in_flight[limit] = Dispatch.objects.in_flight(limit, now=self.now)
        return self._in_flight[limit]

    @cached_property
    def quotas_ending(self) -> list[OnceTask]:
        """The active once tasks that are due and end within ENDING_SOON, with their `standing`: the
        first MAX_ENDING."""
        ending = OnceTask.objects.select_related("executor").filter(
            status=OnceTask.Status.ACTIVE,
            start_at__lte=self.now,
            end_at__gt=self.now,
            end_at__lte=self.now + ENDING_SOON,
        )
        tasks = list(ending.order_by("end_at")[:MAX_ENDING])
        read_availability(tasks, now=self.now)
        return tasks

    @cached_property
    def schedules_in_trouble(self) -> list[ends.InTrouble]:
        """The active schedules whose last run made no job, or whose last three jobs failed: the
        first MAX_IN_TROUBLE."""
        return ends.in_trouble(MAX_IN_TROUBLE)

    # --- flows ---
    @cached_property
    def failed_runs(self) -> list[runs.FailedRun]:
        """The newest MAX_RUNS runs that failed within FAILED_FOR."""
        return runs.failed_since(self.now - FAILED_FOR, MAX_RUNS)

    @cached_property
    def long_active_steps(self) -> list[runs.LongActive]:
        """The steps that have been active for longest, at most MAX_RUNS, one of each run."""
        return runs.long_active(MAX_RUNS)

    @cached_property
    def flow_runs(self) -> dict[str, int]:
        """The open runs by status, and those that failed within FAILED_FOR, up to a limit."""
        return runs.counts(self.now - FAILED_FOR, MAX_RUNS_COUNTED)

    # --- workers ---
    @cached_property
    def _workers(self) -> list[Worker]:
        return living.registered(self.now)

    @property
    def workers(self) -> list[Worker]:
        """The registered workers that have not gone, by name."""
        return [each for each in self._workers if each.state != Worker.State.GONE]

    @property
    def live_workers(self) -> list[Worker]:
        """The workers with a recent heartbeat or call, draining and quiet ones included."""
        return [each for each in self.workers if living.is_there(each, self.now)]

    @property
    def active_workers(self) -> list[Worker]:
        """The live workers that take jobs."""
        return [each for each in self.live_workers if living.takes_jobs(each)]

    @property
    def quiet_workers(self) -> list[Worker]:
        """The live workers that take no new jobs until an operator resumes them."""
        return [each for each in self.live_workers if each.is_quiet]

    @cached_property
    def lost_workers(self) -> list[Worker]:
        """The workers that are missed: silent, or lost a while ago."""
        return living.missed(self._workers, self.now)

    # --- the newest totals, and what they lack ---
    @cached_property
    def stored(self) -> Stored:
        """The extent of the stored totals."""
        return current_sheet().stored if self.only else Stored.read()

    @cached_property
    def unsummed(self) -> last_minutes.Unsummed:
        """The ends that no total has yet, at most LATELY ago."""
        since = max(self.now - LATELY, self.stored.closed_until or self.now - LATELY)
        return last_minutes.unsummed(since, _MAX_READ)

    # --- tables and sweeps ---
    def partitions_of(self, model: type[Model]) -> list[Partition]:
        """The partitions of the table."""
        if model not in self._partitions:
            self._partitions[model] = partitions.partitions_of(model)
        return self._partitions[model]

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


# One for everybody who asks in this process.
sheets: TTLCache[FactSheet] = TTLCache(2.0)
Periods = Callable[[], Mapping[str, float]]
_periods: Periods = dict


def use(periods: Periods) -> None:
    """Name the sweeps; whoever composes the platform knows them."""
    global _periods
    _periods = periods


def current_sheet() -> FactSheet:
    """The fact sheet, at most two seconds old."""
    return sheets.get("", read)


def sheet_of_type(type_: str) -> FactSheet:
    """The fact sheet about one job type, as old at most."""
    return sheets.get(type_, lambda: FactSheet(_periods(), clock.now(), only=type_))


def read() -> FactSheet:
    """A fact sheet of now."""
    return FactSheet(_periods(), clock.now())
