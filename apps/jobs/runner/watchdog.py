"""Two threads beside the handlers: one settles results, one ends a process that is stuck.

A thread cannot be killed. When a handler runs past its deadline, the process holds nothing more,
lets its other handlers end, settles, and exits; its supervisor starts it again. After a stop they
have JOB_STOP_SECONDS, then it settles and releases what it can.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.db import DatabaseError, InterfaceError, close_old_connections

from apps.jobs.conf import conf
from apps.jobs.runner.process import Process

logger = logging.getLogger(__name__)

# "Try again": the process is well, one of its handlers was not.
STUCK = 75
# Exit a little after the lease has ended, so that the rescue finds it expired.
MARGIN_SECONDS = 0.2
_TICK_SECONDS = 0.05
_IDLE_SECONDS = 0.5
_LAST_SECONDS = 5.0
_PARTING_SECONDS = 2.0
# No Python thread runs while C code holds the interpreter, such as an exploding regular expression.
# Then faulthandler, which is C, ends the process; its leases expired long before.
_SEIZED_SECONDS = 90
_ARM_SECONDS = 5.0


class Caretaker(threading.Thread):
    """Settles finished results and releases waiting jobs while handlers take their time."""

    def __init__(self, process: Process) -> None:
        super().__init__(name="caretaker", daemon=True)
        self._process = process

    def run(self) -> None:
        while True:
            self._process.busy.wait()
            time.sleep(_TICK_SECONDS)
            self._process.busy.clear()
            self.maintain()

    def maintain(self) -> None:
        """Maintain each drain of the process once."""
        for drain in list(self._process.drains):
            if drain.held:
                self._process.busy.set()
            try:
                drain.maintain()
            except (DatabaseError, InterfaceError) as error:
                logger.warning("caretaker: the database does not answer: %s", error)
                close_old_connections()
                time.sleep(1.0)
            except Exception:
                logger.exception("caretaker failed")


class Watchdog(threading.Thread):
    """Ends the process when it is stuck or must stop. It checks without the database."""

    def __init__(self, process: Process, *, leave: Callable[[int], None] = os._exit) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._process = process
        self._exit = leave
        self._arm_at = 0.0
        self._idle_since = 0.0

    def run(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS if self._process.busy.is_set() else _IDLE_SECONDS)
            self._arm()
            self.check()

    def check(self) -> None:
        """Compare the clock with the deadlines and with the stop."""
        now = time.monotonic()
        for drain in list(self._process.drains):
            current = drain.current
            if current is not None and now > current.deadline + MARGIN_SECONDS:
                logger.error(
                    "job %d of type %s is past its deadline; its process ends",
                    current.id,
                    current.type,
                )
                self._end(STUCK)
                return
        if not self._process.asked_to_stop:
            return
        if not self._process.drains:
            # The pool ends its forks. A fork that received a message when the stop came would first
            # wait 30 s for the pool to read its answer.
            self._idle_since = self._idle_since or now
            if self._process.node.forks and now - self._idle_since > _PARTING_SECONDS:
                self._end(0)
        elif now - self._process.stopping_since > conf.JOB_STOP_SECONDS:
            logger.warning("handlers go on %d s after the stop", conf.JOB_STOP_SECONDS)
            self._end(0)

    def _arm(self) -> None:
        """Postpone the exit that faulthandler makes when this thread cannot run."""
        now = time.monotonic()
        if now >= self._arm_at:
            self._arm_at = now + _ARM_SECONDS
            with suppress(AttributeError, OSError, ValueError):
                faulthandler.dump_traceback_later(
                    _SEIZED_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
                )

    def _end(self, code: int) -> None:
        self._process.close()
        self._await_others()
        # In a thread: a database that does not answer must not block the exit.
        last = threading.Thread(target=self._release_all, name="last", daemon=True)
        last.start()
        last.join(_LAST_SECONDS)
        self._exit(code)

    def _await_others(self) -> None:
        """Let the other handlers of the process end, by their own deadlines; when it was asked to
        stop, within JOB_STOP_SECONDS. It is not their fault that one is stuck."""
        while any(
            drain.current is not None and drain.current.deadline > time.monotonic()
            for drain in list(self._process.drains)
        ):
            asked, since = self._process.asked_to_stop, self._process.stopping_since
            if asked and time.monotonic() - since > conf.JOB_STOP_SECONDS:
                return
            self._arm()
            time.sleep(_TICK_SECONDS)

    def _release_all(self) -> None:
        for drain in list(self._process.drains):
            try:
                drain.release_all()
            except Exception:
                logger.exception("a drain could not release its jobs; their leases expire")
        try:
            self._process.leave()
        except Exception:
            logger.exception("the worker could not leave the register; it will count as lost")
