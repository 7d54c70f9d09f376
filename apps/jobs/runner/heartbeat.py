"""Heartbeats: the row of the process in the register, and the leases of its jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, close_old_connections

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.errors import PlatformError
from apps.jobs.models import Worker
from apps.jobs.rules import reasons
from apps.jobs.runner import record
from apps.jobs.runner.process import Process, dead_here
from apps.jobs.services import living, register
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.rescue import rescue_due

logger = logging.getLogger(__name__)

_MAX_RENEWED = 500
# After a short lease, beat faster for this long.
_SHORT_SECONDS = 60.0
_RESCUE_TIME = timedelta(seconds=10)


class HeartbeatThread(threading.Thread):
    """One thread per process, with a database connection of its own."""

    def __init__(self, process: Process) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._process = process
        self._beat_at = 0.0
        self._reset_at = time.monotonic() + _SHORT_SECONDS

    def run(self) -> None:
        while True:
            self._run_step(self.beat)
            self._process.poked.wait(self._process.period)
            self._process.poked.clear()

    def beat(self) -> None:
        """Renew the leases; update the register when something changed or it is time."""
        now = time.monotonic()
        renew_all(self._process)
        if now >= self._reset_at:
            self._reset_at = now + _SHORT_SECONDS
            self._process.period = register.BEAT_SECONDS
        if now >= self._beat_at or self._process.changed:
            self._beat_at = now + register.BEAT_SECONDS - 0.1
            self._process.beat()
            self._process.note_siblings()
            lose_dead_neighbours()

    def _run_step(self, step: Callable[[], None]) -> None:
        try:
            close_old_connections()
            step()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("heartbeat: the database does not answer: %s", error)
        except Exception:
            # Without it every lease would end.
            logger.exception("heartbeat failed")


def lose_dead_neighbours(alive: Collection[Worker] | None = None) -> int:
    """Rescue the jobs of workers whose process on this machine has died, such as a predecessor;
    returns how many. `alive`: the living workers, where they have just been read.

    Only here is known which of them had started, so they are ended before the workers count as
    lost, and rescues on other machines end their jobs, too.
    """
    now = clock.now()
    dead = dead_here(living.alive(now) if alive is None else alive)
    if not dead:
        return 0
    until = now + _RESCUE_TIME
    ended = rescue_due(until=until, lost=dead, by_lease=False, records=record.read_all)
    register.lose(workers=dead, reason=reasons.PROCESS_GONE)
    return ended


def renew_all(process: Process) -> None:
    """Renew the leases of all held jobs; note which are lost or to be cancelled."""
    held = process.held()
    for part in chunks(held, _MAX_RENEWED):
        renewed = renew(heartbeats=[Heartbeat(id=job.id, token=job.token) for job in part])
        for job, lease in zip(part, renewed, strict=True):
            if isinstance(lease, PlatformError):
                job.lost = True
            else:
                job.lease_until = lease.until
                job.cancel_requested |= lease.cancel_requested
