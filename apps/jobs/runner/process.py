"""This process as a worker: its drains, what they hold, and whether it is stopping."""

from __future__ import annotations

import functools
import hashlib
import logging
import mmap
import os
import re
import socket
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from apps.common import clock
from apps.common.masking.names import learn_declared
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import Worker
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.runner import record
from apps.jobs.services import living, register
from apps.jobs.services.hold import Holder
from apps.jobs.services.type_snapshots import type_snapshots

logger = logging.getLogger(__name__)

_MIN_PERIOD = 0.2

# A held job that waits here cannot run elsewhere, so batches are short.
BATCH_SECONDS = 0.5
LAST_SECONDS = 0.1
# Within this time more jobs are held than the type's limit.
UNLIMITED_SECONDS = 0.05
MAX_BATCH = 1000
FIRST_BATCH = 8
# A batch grows step by step: a first run may have been quick by chance.
GROWTH = 4
_MEAN_WEIGHT = 0.2
# No job is started so shortly before its lease ends: the clocks of processes differ a little.
START_MARGIN = timedelta(seconds=0.2)

_NO_KEY = re.compile(r"[^A-Za-z0-9_.@/+-]")


def host_name() -> str:
    """The name of this machine as the tables keep it."""
    return _NO_KEY.sub("-", socket.gethostname())[:100]


def machine() -> str:
    """An id that processes share exactly if they see each other's process ids and records."""
    return _machine_with(record.folder())


@functools.cache
def _machine_with(records: Path) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return ""
    shared = f"{boot} {space} {records.resolve()}"
    return hashlib.sha256(shared.encode()).hexdigest()[:8]


class BatchSizes:
    """Batches that take about half a second, from the run times seen so far.

    Jobs with a single attempt take a tenth of one: if the machine is lost, they are.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._sizes: dict[str, int] = {}

    def note(self, type_: str, count: int, seconds: float) -> None:
        """Note that `count` jobs of the type took this long together."""
        if count <= 0:
            return
        seen = seconds / count
        before = self._seconds.get(type_)
        if before is None:
            mean = seen
        else:
            # The exponential mean after `count` equal values.
            mean = seen + (before - seen) * (1 - _MEAN_WEIGHT) ** min(count, 50)
        self._seconds[type_] = mean
        wanted = _fitting(BATCH_SECONDS, mean)
        size = self._sizes.get(type_, FIRST_BATCH)
        # Grow only after a batch that was filled at least by half.
        grown = size * GROWTH if count >= size // 2 else size
        self._sizes[type_] = max(1, min(wanted, grown))

    def sizes(self, types: Iterable[TypeSnapshot]) -> dict[str, int]:
        """The batch of each type now."""
        return {each.name: self._size(each) for each in types}

    def _size(self, type_: TypeSnapshot) -> int:
        size = self._sizes.get(type_.name, FIRST_BATCH)
        mean = self._seconds.get(type_.name)
        if mean is None:
            return min(size, type_.batch_limit)
        if type_.max_attempts == 1:
            size = min(size, _fitting(LAST_SECONDS, mean))
        # The limit is there so that nothing waits behind a long job; such a batch is no wait.
        return max(1, min(size, max(type_.batch_limit, _fitting(UNLIMITED_SECONDS, mean))))


def _fitting(seconds: float, mean: float) -> int:
    """How many jobs take this long together."""
    return int(seconds / mean) if mean > seconds / MAX_BATCH else MAX_BATCH


@dataclass(frozen=True, slots=True)
class Node:
    """One Celery worker. `slots` are the drains it may run at once, in one process or in many.

    `flag` is memory shared with the forks; the parent stops them through it.
    """

    name: str
    lanes: Collection[str]
    slots: int = 1
    forks: bool = False
    flag: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))

    @property
    def key(self) -> str:
        """Its name in those of its processes."""
        return _NO_KEY.sub("-", self.name)[:120]


class Draining(Protocol):
    """The interface of a drain for its process."""

    lane: str
    held: dict[int, HeldJob]
    current: HeldJob | None

    def maintain(self) -> None:
        """Do what cannot wait until the running handler ends."""

    def release_all(self) -> None:
        """Settle and release all: the process ends."""


class Process:
    """One process, one row in the register; its drains are threads, or one in each fork."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pid = os.getpid()
        self.host = host_name()
        self.name = f"{node.key}:{self.pid}:{machine()}"
        self.capacity = 1 if node.forks else node.slots
        self.sizes = BatchSizes()
        self.busy = threading.Event()
        self.poked = threading.Event()
        self.drains: list[Draining] = []
        # Whether the row in the register is out of date.
        self.changed = False
        # When it was first seen to be asked to stop, by the monotonic clock; 0.0 before.
        self.stopping_since = 0.0
        self.period = register.BEAT_SECONDS
        # Not set while an operator keeps the process quiet.
        self._open = threading.Event()
        self._open.set()
        # The slots of the node without those of its quiet processes.
        self.open_slots = node.slots
        # When the process counts as lost unless it sends another heartbeat.
        self.silent_at = datetime.min.replace(tzinfo=UTC)
        self._stop = False
        self._closing = False
        self._registered = False
        self._left = False
        self._drains_lock = threading.Lock()
        # One heartbeat at a time, so that an older one does not overwrite a newer one.
        self._beating = threading.Lock()

    @property
    def holder(self) -> Holder:
        return Holder(self.name, self.host)

    @property
    def stopping(self) -> bool:
        """Whether the process must hold and start nothing new."""
        return self._closing or self.asked_to_stop

    @property
    def asked_to_stop(self) -> bool:
        """Whether its handlers have JOB_STOP_SECONDS left, from the first time this is seen."""
        if self._stop or self.node.flag[0]:
            self.stopping_since = self.stopping_since or time.monotonic()
            return True
        return False

    def close(self) -> None:
        """Hold nothing more, because a handler is stuck; the others end by their own deadlines."""
        self._closing = True

    def stop(self) -> None:
        """Hold nothing more. Takes no lock, since signal handlers call it."""
        self._stop = True

    @property
    def is_quiet(self) -> bool:
        """Whether the process must hold nothing new until an operator resumes it."""
        return not self._open.is_set()

    def await_resume(self, seconds: float) -> None:
        """Wait until the process is no longer quiet, at most this long."""
        self._open.wait(seconds)

    def note_siblings(self) -> None:
        """Note how many slots the quiet processes of the node leave."""
        if self.node.forks:
            alive = living.alive(clock.now())
            siblings = [e for e in alive if e.node == self.node.key and e.name != self.name]
            quiet = sum(each.capacity for each in siblings if each.is_quiet)
            self.open_slots = max(1, self.node.slots - quiet)

    def join(self, drain: Draining) -> None:
        with self._drains_lock:
            self.drains.append(drain)
        self.changed = True
        self.beat()

    def part(self, drain: Draining) -> None:
        with self._drains_lock:
            self.drains.remove(drain)
        self.changed = True
        self.poked.set()

    def note_held(self, lease: timedelta) -> None:
        """Beat often enough to renew a lease of this length."""
        self.busy.set()
        period = max(_MIN_PERIOD, lease.total_seconds() / 4)
        if period < self.period:
            self.period = period
            self.poked.set()

    def held(self) -> list[HeldJob]:
        """All jobs that are held now."""
        return [job for drain in list(self.drains) for job in list(drain.held.values())]

    def may_start(self, job: HeldJob) -> bool:
        """Whether the job can be started now: nobody else may have it, nor give it to others.

        A process that was frozen starts nothing when it goes on after its lease.
        """
        return clock.now() + START_MARGIN < min(job.lease_until, self.silent_at)

    @property
    def is_silent(self) -> bool:
        """Whether it counts as lost, because its heartbeats fail."""
        return clock.now() + START_MARGIN >= self.silent_at

    def lanes(self) -> dict[str, int]:
        """How many drains of each lane run here."""
        counts: dict[str, int] = {}
        for drain in list(self.drains):
            counts[drain.lane] = counts.get(drain.lane, 0) + 1
        return counts

    def beat(self) -> None:
        """Update the row in the register; make it first if it is not there."""
        with self._beating:
            if not self._left:
                self._beat()

    def _beat(self) -> None:
        types, began = types_with_handler(), clock.now()
        learn_declared()
        self.changed = False
        if not self._registered:
            self._register(types)
        running = sum(job.started > 0 for job in self.held())
        row = register.beat(
            name=self.name,
            drains=self.lanes(),
            running=running,
            types=types,
            stopping=self.stopping,
        )
        if row is None:
            self._registered = False
            logger.warning("worker %s counted as lost; it registers again", self.name)
            row = self._register(types)
        self._hear(row)
        self.silent_at = began + conf.JOB_WORKER_SILENCE

    def _hear(self, row: Worker) -> None:
        """Do what an operator asks for in the row."""
        if row.is_quiet == self.is_quiet:
            return
        if row.is_quiet:
            logger.info("worker %s is quiet: it takes nothing new", self.name)
            self._open.clear()
        else:
            logger.info("worker %s takes jobs again", self.name)
            self._open.set()

    def _register(self, types: Collection[str]) -> Worker:
        row = register.register(
            name=self.name,
            host=self.host,
            node=self.node.key,
            machine=machine(),
            pid=self.pid,
            lanes=self.node.lanes,
            types=types,
            capacity=self.capacity,
        )
        self._registered = True
        return row

    def leave(self) -> None:
        """Leave the register; no later heartbeat registers the process again."""
        with self._beating:
            self._left = True
            if self._registered:
                register.leave(name=self.name)
                self._registered = False


def types_with_handler() -> dict[str, TypeSnapshot]:
    """The types that this process has handlers for; several may name the same one."""
    return {n: type_ for n, type_ in type_snapshots().items() if registry.find(type_.handler)}


def dead_here(workers: Collection[Worker]) -> list[register.WorkerKey]:
    """The keys of the workers whose process on this machine has ended."""
    here = machine()
    return [
        register.WorkerKey(worker.client, worker.name)
        for worker in workers
        if here and worker.machine == here and not _runs(worker.pid)
    ]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
