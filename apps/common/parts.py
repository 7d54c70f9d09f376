"""Rows that are part of something above their app, which it knows by a number only.

Who is above registers what is called when such rows end, which of them are still needed, and where,
what the number stands for in words, and between which rows its parts lie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from django.db import transaction

from apps.common.db import apart
from apps.common.messages import Message

Numbers = Collection[int]


class Whole(NamedTuple):
    """The thing that rows are part of: `Step resize of run 17 of flow night`, and its page."""

    words: Message
    url: str


class Span(NamedTuple):
    """The first and the last row, or for dispatches task, among which the parts of a number are."""

    first: int
    last: int


NOWHERE = Span(0, 0)
Names = Callable[[Numbers, Any], dict[int, Whole]]


class Parts:
    """The parts of one app's rows."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[Numbers], None]] = []
        self._owners: list[Callable[[Numbers], Numbers]] = []
        self._regions: list[Callable[[Span], bool]] = []
        self._names: list[Names] = []
        self._spans: list[Callable[[int], Span | None]] = []

    def on_end(self, listener: Callable[[Numbers], None]) -> None:
        """Call the listener after each commit with the numbers that ended rows, or rows that came
        back from their end, are part of."""
        self._listeners.append(listener)

    def keep_while(self, owner: Callable[[Numbers], Numbers]) -> None:
        """Keep the rows that are part of those numbers which the owner returns when asked."""
        self._owners.append(owner)

    def keep_among(self, owner: Callable[[Span], bool]) -> None:
        """Keep the rows from the first to the last one together while the owner, when asked, says
        that a part which is still needed may lie there."""
        self._regions.append(owner)

    def name_by(self, names: Names) -> None:
        """Ask there what numbers stand for, as far as a person may see it."""
        self._names.append(names)

    def find_by(self, span: Callable[[int], Span | None]) -> None:
        """Ask there among which rows the parts of a number are; None for an unknown number."""
        self._spans.append(span)

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

    def is_kept_among(self, span: Span) -> bool:
        """Whether a row that is still needed may lie there."""
        return any(owner(span) for owner in self._regions)

    def named(self, numbers: Iterable[int | None], person: Any) -> dict[int, Whole]:
        """Return what the numbers stand for, as far as the person may see it; no statement is made
        where all of them are None."""
        known = {each for each in numbers if each is not None}
        return {
            number: whole
            for names in self._names
            if known
            for number, whole in names(known, person).items()
        }

    def span(self, number: int) -> Span:
        """Return among which rows the parts of the number are; NOWHERE for none."""
        found = (span(number) for span in self._spans)
        return next((each for each in found if each is not None), NOWHERE)
