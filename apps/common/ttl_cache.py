"""A cache within a process, for some seconds: for values that many ask for and that take long."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

ValueT = TypeVar("ValueT")


class TTLCache(Generic[ValueT]):
    """Values by key, each at most `seconds` old; beyond `most` of them all are forgotten.

    A value that takes long to make is kept longer: `times_as_long` as that took.
    """

    def __init__(self, seconds: float, *, most: int = 100, times_as_long: float = 0) -> None:
        self.seconds = seconds
        self._most = most
        self._times_as_long = times_as_long
        # Each with the monotonic second from which on it is too old.
        self._values: dict[Hashable, tuple[ValueT, float]] = {}

    def get(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """The value in the cache, or a new one."""
        cached = self._values.get(key)
        if cached is not None and time.monotonic() < cached[1]:
            return cached[0]
        began = time.monotonic()
        value = make()
        taken = time.monotonic() - began
        until = began + max(self.seconds, taken * self._times_as_long)
        if len(self._values) >= self._most:
            self._values.clear()
        self._values[key] = value, until
        return value

    def add(self, key: Hashable, value: ValueT) -> bool:
        """Keep the value unless there is one; returns whether there was none."""
        is_new = False

        def make() -> ValueT:
            nonlocal is_new
            is_new = True
            return value

        self.get(key, make)
        return is_new

    def forget(self) -> None:
        """Forget all values, so that they are made anew."""
        self._values.clear()
