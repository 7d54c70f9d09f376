"""Chunks of many values, for statements and transactions that take a limited number of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

ItemT = TypeVar("ItemT")


def chunks(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield the items in their order, at most `size` at a time."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
