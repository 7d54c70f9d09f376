"""The notice to other apps that ended jobs go on, so that their noted ends count no more."""

from __future__ import annotations

from collections.abc import Callable, Collection

# Called with the numbers within the transaction that moves the jobs, which are locked.
Listener = Callable[[Collection[int]], None]

_listeners: list[Listener] = []


def register(listener: Listener) -> None:
    """Have the listener called with ended jobs that are retried or marked as done after all."""
    _listeners.append(listener)


def notify(numbers: Collection[int]) -> None:
    """Call the listeners with these jobs, which had ended and which an operator has moved on."""
    for listener in _listeners if numbers else ():
        listener(numbers)
