"""Keeps sweeps running when the wall clock is set, the broker is away or the beat process dies."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from celery import beat, bootsteps
from celery.beat import SchedulingError
from celery.worker import state
from celery.worker.components import Beat, Timer
from django.db import connections

from apps.common import on_demand
from apps.jobs.sweeps import SCAN

logger = logging.getLogger(__name__)

# After the broker has not taken a sweep, nothing is sent to it for so long.
AWAY_SECONDS = 5.0


class Beside:
    """Runs sweeps in threads of this process, each of them once at a time."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._threads: dict[str, threading.Thread] = {}

    def run(self, name: str, task: str, args: Sequence[Any] = ()) -> None:
        """Start the sweep of this name, unless it still runs."""
        running, known = self._threads.get(name), self._app.tasks.get(task)
        if known is None or (running is not None and running.is_alive()):
            return
        thread = threading.Thread(target=self._run, args=(known, args), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def _run(self, task: Any, args: Sequence[Any]) -> None:
        try:
            task.apply(args=[*args])
            if task.name == SCAN:
                for sweep in on_demand.wanted():
                    self.run(sweep, sweep)
        finally:
            connections.close_all()


class Scheduler(beat.Scheduler):
    """Celery's beat by elapsed time, which needs no broker.

    When the wall clock is set back, Celery's own scheduler waits until the old time comes again,
    even after a restart, because it keeps the time in a file.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due_at: dict[str, float] = {}
        self._away_until = 0.0
        super().__init__(*args, **kwargs)
        self._beside = Beside(self.app)

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
        """Send one. While the broker is away, the sweep runs here; the log has one line for it
        instead of Celery's traceback."""
        if time.monotonic() >= self._away_until:
            try:
                self.apply_async(entry, producer=producer, advance=False)
            except SchedulingError as error:
                self._away_until = time.monotonic() + AWAY_SECONDS
                logger.error("%s. For %.0f s sweeps run beside beat.", error, AWAY_SECONDS)
            else:
                return
        self._beside.run(entry.name, entry.task, entry.args)


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
