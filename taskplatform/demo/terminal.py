"""Tables, percentiles and progress for a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

from django.core.management.base import OutputWrapper

NumberT = TypeVar("NumberT", int, float)

# So that the longest line of progress fits a terminal of 80 columns.
BAR_CELLS = 10
POLL_SECONDS = 0.25
# Where a line cannot be overwritten.
SECONDS_BETWEEN_LINES = 5.0


def bar(done: int, total: int) -> str:
    full = BAR_CELLS * done // max(total, 1)
    return f"{'█' * full}{'░' * (BAR_CELLS - full)} {done:,} of {total:,}"


def watch(look: Callable[[], tuple[str, bool]], seconds: int, out: OutputWrapper) -> float:
    """Show what `look` finds until it says that all is over, or the time is up; the seconds it
    took. On a terminal the line is overwritten."""
    begun = time.monotonic()
    next_at = 0.0
    while True:
        line, over = look()
        took = time.monotonic() - begun
        over = over or took >= seconds
        line = f"{took:4.0f} s {line}"
        if out.isatty():
            out.write(f"\r{line}\x1b[K", ending="\n" if over else "")
        elif over or took >= next_at:
            out.write(line)
            next_at = took + SECONDS_BETWEEN_LINES
        out.flush()
        if over:
            return took
        time.sleep(POLL_SECONDS)


def percentile(values: Sequence[NumberT], percent: float) -> NumberT:
    """The nearest rank: the smallest value that at least `percent` of all do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
