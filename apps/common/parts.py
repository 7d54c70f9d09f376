"""Rows that are part of something above their app, which it knows by a number only.

Who is above registers what is called when such rows end, which of them are still needed, and in
which range of numbers they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.db import transaction

from apps.common.db import apart

Numbers = Collection[int]
# The first and the last number.
Range = tuple[int, int]


class Parts:
    """The parts of one app's rows."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Numbers], None]] = []
        self._owners: list[Callable[[Numbers], Numbers]] = []
        self._finders: list[Callable[[int], Range | None]] = []

    def on_end(self, listener: Callable[[Numbers], None]) -> None:
        """Call the listener after each commit with the numbers that ended rows, or rows that came
        back from their end, are part of."""
        self._listeners.append(listener)

    def keep_while(self, owner: Callable[[Numbers], Numbers]) -> None:
        """Keep the rows that are part of those numbers which the owner returns when asked."""
        self._owners.append(owner)

    def lie_in(self, finder: Callable[[int], Range | None]) -> None:
        """Find the rows that are part of a number in the range that the finder returns."""
        self._finders.append(finder)

    def range_of(self, number: int) -> Range | None:
        """Return the range in which all rows lie that are part of the number; None for none."""
        found = (finder(number) for finder in self._finders)
        return next((each for each in found if each is not None), None)

    def ended(self, numbers: Numbers) -> None:
        """Call the listeners once this transaction has committed; an error of one is logged."""

        def notify() -> None:
            for listener in self._listeners:
                with apart("a listener to ends"):
                    listener(numbers)

        if numbers and self._listeners:
            transaction.on_commit(notify)

    def kept(self, numbers: Numbers) -> set[int]:
        """Return the numbers whose rows are still needed."""
        return {each for owner in self._owners if numbers for each in owner(numbers)}
