"""Keeps sweeps running when the wall clock is set or the beat process dies."""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from contextlib import suppress
from typing import Any

from celery import beat, bootsteps
from celery.beat import SchedulingError
from celery.worker import state
from celery.worker.components import Beat, Timer

logger = logging.getLogger(__name__)


class Scheduler(beat.Scheduler):
    """Celery's beat by elapsed time.

    When the wall clock is set back, Celery's own scheduler waits until the old time comes again,
    even after a restart, because it keeps the time in a file.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due_at: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send what is due; the seconds until the next is.

        A period counts from when its sweep was due, so that those of one second stay together: on
        an idle machine each moment with a sweep wakes beat, worker and drains.
        """
        now = time.monotonic()
        for name, entry in self.schedule.items():
            due_at = self._due_at.get(name, now)
            if due_at <= now:
                schedule: Any = entry.schedule
                period = schedule.run_every.total_seconds()
                self._due_at[name] = now + period - (now - due_at) % period
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due_at.values()) - time.monotonic())

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send one. When the broker is unavailable, log one line instead of Celery's traceback."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            logger.error("%s", error)


class EndWithBeat(bootsteps.StartStopStep):
    """Ends a worker when its beat process dies, so that both restart, and the beat with its worker.

    Celery itself would go on without beat and never run a sweep again. Its SIGTERM does not end a
    beat that has just been forked and still has the signal handler of its parent.
    """

    requires = (Beat, Timer)
    _watch: Any = None

    def create(self, worker: Any) -> None:
        """Keep what is loaded from being searched for garbage, which writes to each object: beat is
        forked in a moment, and would need the memory once more."""
        gc.collect()
        gc.freeze()

    def start(self, worker: Any) -> None:
        if worker.beat is not None:
            self._watch = worker.timer.call_repeatedly(1.0, self._check, (worker,))

    def stop(self, worker: Any) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if worker.beat is not None and worker.beat.is_alive():
            # It has nothing to clean up.
            with suppress(ProcessLookupError):
                os.kill(worker.beat.pid, signal.SIGKILL)

    def terminate(self, worker: Any) -> None:
        self.stop(worker)

    @staticmethod
    def _check(worker: Any) -> None:
        is_stopping = state.should_stop is not None or state.should_terminate is not None
        if not is_stopping and not worker.beat.is_alive():
            logger.critical("The beat process has died. This worker ends so that both restart.")
            state.should_stop = 1  # type: ignore[assignment]
