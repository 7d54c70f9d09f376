"""Rows that are part of something above their app, which it knows by a number only.

Who is above registers what is called when such rows end, and which of them are still needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.db import transaction

from apps.common.db import apart

Numbers = Collection[int]


class Parts:
    """The parts of one app's rows."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Numbers], None]] = []
        self._owners: list[Callable[[Numbers], Numbers]] = []

    def on_end(self, listener: Callable[[Numbers], None]) -> None:
        """Have it told, after each commit, what the rows were part of that came to their end or
        left it."""
        self._listeners.append(listener)

    def keep_while(self, owner: Callable[[Numbers], Numbers]) -> None:
        """Have the rows kept that are part of the numbers that it returns of those it is asked."""
        self._owners.append(owner)

    def ended(self, numbers: Numbers) -> None:
        """Tell the listeners when this transaction has committed; none can spoil what ended."""

        def tell() -> None:
            for listener in self._listeners:
                with apart("a listener to ends"):
                    listener(numbers)

        if numbers and self._listeners:
            transaction.on_commit(tell)

    def kept(self, numbers: Numbers) -> set[int]:
        """Those of the numbers whose rows are still needed."""
        return {each for owner in self._owners if numbers for each in owner(numbers)}
