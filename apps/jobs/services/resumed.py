"""Telling those who have noted how jobs ended that these ends count no more."""

from __future__ import annotations

from collections.abc import Callable, Collection

# Told of the numbers within the transaction that moves the jobs, which are locked.
Listener = Callable[[Collection[int]], None]

_listeners: list[Listener] = []


def register(listener: Listener) -> None:
    """Have the listener told of ended jobs that are retried or marked as done after all."""
    _listeners.append(listener)


def tell(numbers: Collection[int]) -> None:
    """These jobs had ended, and an operator has moved them on."""
    for listener in _listeners if numbers else ():
        listener(numbers)
