"""Who may run beside whom in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Gate:
    """Batches share the process; a suspect, which may kill it, has it to itself.

    Who waits for the process goes before those that would share it, so that it gets its turn.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._alone = False
        # Read without the lock between two jobs: whether somebody waits to be alone.
        self.wanted = 0

    @contextmanager
    def shared(self, seconds: float) -> Iterator[bool]:
        """Run beside others; False when a suspect did not end, or begin, within the time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            entered = self._wait(lambda: not self._alone and not self.wanted, deadline)
            self._sharing += entered
        try:
            yield entered
        finally:
            if entered:
                with self._changed:
                    self._sharing -= 1
                    self._changed.notify_all()

    @contextmanager
    def alone(self, seconds: float) -> Iterator[bool]:
        """Run with nothing beside; False when others did not end within the time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self.wanted += 1
            entered = self._wait(lambda: not self._alone and not self._sharing, deadline)
            self.wanted -= 1
            self._alone = self._alone or entered
            self._changed.notify_all()
        try:
            yield entered
        finally:
            if entered:
                with self._changed:
                    self._alone = False
                    self._changed.notify_all()

    def _wait(self, is_free: Callable[[], bool], deadline: float) -> bool:
        return self._changed.wait_for(is_free, max(0.0, deadline - time.monotonic()))
