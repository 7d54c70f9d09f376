"""How much a piece of work does, counted so that it does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# Twice, and some more for what is done in steps.
MOST = 2.5


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Work of twice the size takes about twice as many steps, not four times as many."""
    once, twice = steps_of(lambda: work(size)), steps_of(lambda: work(2 * size))
    assert twice <= MOST * once, f"{once:,} steps for {size:,}, {twice:,} for {2 * size:,}"


def steps_of(work: Callable[[], object]) -> int:
    """The lines of Python that this thread runs meanwhile. What is not written in Python counts
    as nothing: its time is for the benchmark."""
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps
