"""The worker loop of a lane: hold due jobs, run them, settle them, wait for the next."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connection

from apps.common import clock
from apps.jobs.errors import LeaseLost
from apps.jobs.handlers import registry
from apps.jobs.models import Worker
from apps.jobs.rules import slots
from apps.jobs.rules.job_log import LogLines
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.transitions import END_RELEASED
from apps.jobs.rules.type_snapshot import EACH, FAST, TypeSnapshot
from apps.jobs.runner import attempt, attempt_log
from apps.jobs.runner.listener import Listener
from apps.jobs.runner.outbox import Outbox
from apps.jobs.runner.places import Places, of_platform
from apps.jobs.runner.process import FIRST_BATCH, Process, types_with_handler
from apps.jobs.runner.record import Record, folder, remove_left
from apps.jobs.services import leases, living
from apps.jobs.services.hold import RecentWork, due_types, new_token, running_under
from apps.jobs.services.settle import give_back
from apps.jobs.services.type_snapshots import type_snapshots

logger = logging.getLogger(__name__)

MAX_HELD = 500
# A handler may run on for so long after its job was put back, until its process has ended.
PARTING = timedelta(seconds=5)
IDLE_SECONDS = 5.0
# How often an unwoken drain polls: a wake-up may get lost, and scheduled jobs fall due.
POLL_SECONDS = 1.0
# Held jobs that have not started by then are released: a handler takes longer than it used to.
# Waiting takes at most this share of the time of an attempt.
OVERDUE_SECONDS = 1.5
_WAITED_SHARE = 0.25
# Before each wait, older snapshots of types are read anew: the next job need not wait for it.
_SNAPSHOT_SECONDS = 0.2
_AWAY_SECONDS = 1.0
# While the process is quiet: how soon a drain notices that it stops.
_QUIET_SECONDS = 0.25


class Drain:
    """One worker loop in this process. It calls `summon` when it finds a full batch."""

    def __init__(
        self, process: Process, lane: str, *, summon: Callable[[], object] = lambda: None
    ) -> None:
        self.lane = lane
        self.held: dict[int, HeldJob] = {}
        self.current: HeldJob | None = None
        self._process = process
        self._summon = summon
        self._outbox = Outbox(self.held)
        # None when the record has no place on the disk: then no job is held beside another.
        self._record: Record | None = None
        self._queue: deque[HeldJob] = deque()
        self._recent = RecentWork()
        self._overdue_at = 0.0
        # The token of a hold whose answer was lost: it may have taken jobs.
        self._unanswered = ""
        self._rotation = random.randrange(1000)  # noqa: S311
        self._round_at = 0.0
        self._places = Places(process.node.key)
        self._listener = Listener(self._is_due, lambda: process.stopping, self._lanes)
        self._done = 0

    @property
    def _lanes(self) -> tuple[str, ...]:
        """The lanes that it polls, its own first: both on a worker that has one slot left."""
        node = self._process.node
        return slots.lanes_polled(self.lane, node.lanes, self._process.open_slots)

    def run(self, *, wait: bool = True) -> int:
        """Run the loop; returns how many jobs it ran. Without `wait` it ends when none is due."""
        try:
            self._process.join(self)
            if self._is_surplus():
                return 0
            self._record = new_record()
            self._work(wait)
        finally:
            self._listener.close()
            self._release_queue()
            self._settle_rest()
            if self._record is not None:
                self._record.close(keep=bool(self.held))
            self._process.part(self)
        return self._done

    def _work(self, wait: bool) -> None:
        has_work = woken = False
        idle_since = time.monotonic()
        while not self._process.stopping:
            if not (has_work or woken):
                refresh_connection()
            try:
                self._give_back_unanswered()
                if self._process.is_quiet:
                    # The drain keeps its slot: if it ended, it would swallow the next start of a
                    # drain, too, which is meant for another process.
                    self._outbox.flush()
                    has_work = woken = False
                    if not wait:
                        return
                    self._process.await_resume(_QUIET_SECONDS)
                    idle_since = time.monotonic()
                    continue
                found = self._poll()
                if found or self._outbox.flush():
                    if not has_work and found >= FIRST_BATCH:
                        self._summon()
                    has_work, idle_since = True, time.monotonic()
                    continue
                has_work = False
                if not wait:
                    return
                type_snapshots(max_age=_SNAPSHOT_SECONDS)
                idles = self._listener.sees_all
                woken = self._listener.wait(IDLE_SECONDS if idles else POLL_SECONDS)
                if time.monotonic() - idle_since > IDLE_SECONDS:
                    if not self._is_needed():
                        return
                    idle_since = time.monotonic()
            except (DatabaseError, InterfaceError) as error:
                self._release_queue()
                self._database_is_away(error)

    # --- One round ------------------------------------------------------------------------------

    def _poll(self) -> int:
        """Settle what waits, hold and run what is due; returns how many jobs were held.

        If the wake-up named types, hold a few jobs of these only: it is the fastest, and other
        drains were woken, too. At least every POLL_SECONDS all types are polled.
        """
        new, self._listener.new = self._listener.new, dict[str, int]()
        if new and time.monotonic() < self._round_at + POLL_SECONDS:
            known = _types_of(self._lanes)
            types = {name: known[name] for name in new if name in known}
            job = next(iter(new.values())) if len(new) == 1 else 0
            return self._hold_and_run(types, FIRST_BATCH, new=job)
        self._round_at = time.monotonic()
        return self._round()

    def _round(self) -> int:
        """Hold and run what is due, of the own lane first; returns how many jobs were held."""
        self._rotation += 1
        lanes = self._lanes
        if len(lanes) > 1 and self.lane == FAST and self._rotation % 2:
            # The only slot of its worker serves both lanes alternately.
            lanes = lanes[::-1]
        for lane in lanes:
            if types := _types_of([lane]):
                held = self._hold_and_run(types, MAX_HELD)
                if held:
                    return held
        return 0

    def _hold_and_run(self, types: Mapping[str, TypeSnapshot], limit: int, *, new: int = 0) -> int:
        node, slots_open = self._process.node, self._process.open_slots
        most = slots.places_of_others(self.lane, node.lanes, slots_open)
        with self._places.allowed_types(types, most) as allowed:
            if not allowed:
                return 0
            return self._hold_and_run_of(allowed, limit, new=new)

    def _hold_and_run_of(
        self, types: Mapping[str, TypeSnapshot], limit: int, *, new: int = 0
    ) -> int:
        if self._process.is_silent:
            return 0
        self._unanswered = new_token()
        if self._record is not None:
            self._record.begin(self._unanswered)
        jobs = self._outbox.exchange(
            holder=self._process.holder,
            types=list(types),
            limit=limit if self._record is not None else 1,
            rotation=self._rotation,
            batch=self._process.sizes.sizes(types.values()),
            new=new,
            token=self._unanswered,
            recent=self._recent,
        )
        self._unanswered = ""
        if jobs:
            if self._record is not None:
                self._record.took()
            self._enqueue(jobs)
            self._run_all(types)
        return len(jobs)

    def _enqueue(self, jobs: Sequence[HeldJob]) -> None:
        now, began = clock.now(), time.monotonic()
        self._overdue_at = began + min(OVERDUE_SECONDS, _max_wait(jobs))
        for job in jobs:
            job.deadline = began + (job.hard_end_at - now).total_seconds()
            self.held[job.id] = job
            self._queue.append(job)
        self._process.note_held(min(job.lease_until for job in jobs) - now)

    def _run_all(self, types: Mapping[str, TypeSnapshot]) -> None:
        """Run the queue one by one."""
        counts: dict[str, int] = {}
        seconds: dict[str, float] = {}
        process, outbox, record = self._process, self._outbox, self._record

        def is_stopping() -> bool:
            return process.stopping

        began = time.monotonic()
        while self._queue:
            if process.stopping:
                self._release_queue()
                break
            try:
                job = self._queue.popleft()
            except IndexError:
                # Released meanwhile by the caretaker thread.
                break
            if job.lost:
                self.held.pop(job.id, None)
                continue
            if record is not None:
                record.started(job.id)
            # Asked only after that: a rescue that finds the lease over, and no start, gives the job
            # to others.
            if not process.may_start(job):
                outbox.add(job.ended(END_RELEASED), began)
                continue
            type_ = types[job.type]
            job.started = began
            self.current = job
            outcome = attempt.run(registry.find(type_.handler), job, is_stopping)
            self.current = None
            is_kept = record is None or record.ended(outcome)
            ended = time.monotonic()
            outbox.add(outcome, ended)
            counts[job.type] = counts.get(job.type, 0) + 1
            seconds[job.type] = seconds.get(job.type, 0.0) + ended - began
            began = ended
            if type_.settle == EACH or not is_kept or outbox.is_due(ended):
                outbox.flush()
                began = time.monotonic()
        for name, count in counts.items():
            process.sizes.note(name, count, seconds[name])
        self._done += sum(counts.values())

    def _release_queue(self) -> None:
        """Release the jobs that have not started."""
        now = time.monotonic()
        while self._queue:
            with suppress(IndexError):
                self._outbox.add(self._queue.pop().ended(END_RELEASED), now)

    # --- Called by other threads of the process -------------------------------------------------

    def maintain(self) -> None:
        """While a handler runs: settle results, and release jobs that wait too long."""
        now = time.monotonic()
        if self._queue and now > self._overdue_at:
            self._release_queue()
        if self._outbox.is_due(now):
            self._outbox.flush()
        current = self.current
        if current is not None and not current.lost and attempt_log.is_due(current, now):
            self._send_log(current)

    def _send_log(self, job: HeldJob) -> None:
        def keep(added: LogLines) -> None:
            job.cancel_requested |= leases.log(job=job.id, token=job.token, added=added)

        try:
            job.log.send(keep)
        except LeaseLost:
            job.lost = True

    def release_all(self) -> None:
        """The process ends during a handler: settle and put back everything held."""
        self._release_queue()
        current = self.current
        if current is not None and current.deadline > time.monotonic():
            self._outbox.add(attempt.interrupted(current, PARTING), time.monotonic())
        self._outbox.flush()

    # --- Whether it is needed -------------------------------------------------------------------

    def _is_surplus(self) -> bool:
        """Whether its worker already runs its maximum of drains for the lane.

        Of several that start together, the last one by name ends.
        """
        node, alive = self._process.node, _open_workers()
        limit = slots.max_drains(self.lane, node.lanes, self._process.open_slots)
        ours = [each for each in alive if each.node == node.key]
        before = sum(
            each.drains.get(self.lane, 0) for each in ours if each.name < self._process.name
        )
        own = [each for each in self._process.drains if each.lane == self.lane]
        return int(before) + own.index(self) >= limit

    def _is_needed(self) -> bool:
        """Whether it is the one drain of its lane that stays when idle: the first by name."""
        waiting = [each for each in _open_workers() if each.drains.get(self.lane)]
        own: list[object] = [each for each in self._process.drains if each.lane == self.lane]
        return own[0] is self and not any(each.name < self._process.name for each in waiting)

    def _is_due(self) -> bool:
        types: Mapping[str, TypeSnapshot] = _types_of(self._lanes)
        if self._places.are_taken:
            types = of_platform(types)
        return bool(types) and bool(due_types(types))

    # --- Trouble --------------------------------------------------------------------------------

    def _give_back_unanswered(self) -> None:
        if self._unanswered:
            give_back(token=self._unanswered)
            self._unanswered = ""

    def _settle_rest(self) -> None:
        """Settle the last outcomes at the end of the loop. If that fails, the leases expire."""
        for _ in range(5):
            try:
                self._give_back_unanswered()
                self._outbox.flush()
            except (DatabaseError, InterfaceError) as error:
                self._database_is_away(error)
            else:
                return

    def _database_is_away(self, error: Exception) -> None:
        logger.warning("drain of %s: the database does not answer: %s", self.lane, error)
        refresh_connection()
        time.sleep(_AWAY_SECONDS)


def _open_workers() -> list[Worker]:
    """The live workers without the quiet ones, whose drains take nothing."""
    return [each for each in living.alive(clock.now()) if not each.is_quiet]


def _max_wait(jobs: Sequence[HeldJob]) -> float:
    """How many seconds the jobs can wait without losing too much of their time."""
    shortest = min(job.hard_end_at - job.held_at for job in jobs)
    return shortest.total_seconds() * _WAITED_SHARE


def new_record() -> Record | None:
    """A record of starts; None, with a warning, when the disk has no place for it."""
    remove_left(running_under)
    try:
        return Record()
    except OSError as error:
        logger.warning(
            "no record of starts can be kept in %s (%s): jobs are held one by one, which is slow",
            folder(),
            error,
        )
        return None


def refresh_connection() -> None:
    """Close a connection that is broken or too old; the next statement opens another."""
    # Within the caller's transaction it belongs to the caller.
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def _types_of(lanes: Collection[str]) -> dict[str, TypeSnapshot]:
    """The types of these lanes that this process has handlers for."""
    return {name: type_ for name, type_ in types_with_handler().items() if type_.lane in lanes}
