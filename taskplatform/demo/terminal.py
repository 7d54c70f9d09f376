"""Tables, percentiles and progress for a terminal."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import TypeVar

from django.core.management.base import OutputWrapper

NumberT = TypeVar("NumberT", int, float)

MAX_CELLS = 30
# So that the longest line of progress fits a terminal of 80 columns.
BAR_CELLS = 10
POLL_SECONDS = 0.25
# Where a line cannot be overwritten.
SECONDS_BETWEEN_LINES = 5.0


def cells_of(text: str) -> int:
    """How many cells of the terminal the text takes: East Asian wide characters two, combining
    ones none."""
    narrow = sum(not unicodedata.combining(character) for character in text)
    return narrow + sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def fit(text: str) -> str:
    """The text in at most MAX_CELLS, cut with … where it is longer.

    Control and direction characters become ?, because they would move what stands around them.
    """
    text = "".join(c if c.isprintable() else "?" for c in text)
    if cells_of(text) <= MAX_CELLS:
        return text
    while cells_of(text) >= MAX_CELLS:
        text = text[:-1]
    return f"{text}…"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The headings, a rule, and one line for each row. Columns of a heading with > stand right."""
    right = [heading.startswith(">") for heading in headings]
    names = [heading.removeprefix(">") for heading in headings]
    widths = [max(map(cells_of, column)) for column in zip(names, *rows, strict=True)]
    for line in (names, ["─" * width for width in widths], *rows):
        blanks = [" " * (width - cells_of(cell)) for width, cell in zip(widths, line, strict=True)]
        yield "  ".join(
            blank + cell if is_right else cell + blank
            for blank, cell, is_right in zip(blanks, line, right, strict=True)
        ).rstrip()


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
