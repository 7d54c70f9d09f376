"""What keeps the sweeps coming, whatever becomes of the wall clock and of the process of beat."""

from __future__ import annotations

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
    """Celery's beat, by elapsed time: after a step back of the wall clock Celery's own waits until
    that time comes again, even when it is started anew, because it keeps the time in a file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due_at: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Send what is due; the seconds until the next is."""
        for name, entry in self.schedule.items():
            now = time.monotonic()
            if self._due_at.get(name, now) <= now:
                period: Any = entry.schedule
                self._due_at[name] = now + period.run_every.total_seconds()
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due_at.values()) - time.monotonic())

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send one; while the broker is away in one line, where Celery tells of the whole stack."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            logger.error("%s", error)


class EndWithBeat(bootsteps.StartStopStep):
    """Ends a worker whose beat, a process of its own, has died, so that both are started anew; and
    the beat with its worker.

    Celery itself goes on without, and no sweep ever comes again. The SIGTERM that it ends a beat
    with is lost on one that has just been forked and still has the handler of its parent.
    """

    requires = (Beat, Timer)
    _watch: Any = None

    def start(self, worker: Any) -> None:
        if worker.beat is not None:
            self._watch = worker.timer.call_repeatedly(1.0, self._look, (worker,))

    def stop(self, worker: Any) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if worker.beat is not None and worker.beat.is_alive():
            # It keeps nothing that would have to be put in order.
            with suppress(ProcessLookupError):
                os.kill(worker.beat.pid, signal.SIGKILL)

    def terminate(self, worker: Any) -> None:
        self.stop(worker)

    @staticmethod
    def _look(worker: Any) -> None:
        is_stopping = state.should_stop is not None or state.should_terminate is not None
        if not is_stopping and not worker.beat.is_alive():
            logger.critical("The beat has died; this worker ends, to be started again with it.")
            state.should_stop = 1  # type: ignore[assignment]
