"""Tables, percentiles and progress for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Literal, NamedTuple, TypeVar

NumberT = TypeVar("NumberT", int, float)

_GAP = "  "


class Column(NamedTuple):
    """A heading and a width in cells of the terminal; 0 is the width of the longest cell."""

    heading: str
    cells: int = 0
    align: Literal["left", "right"] = "left"


def cells_of(text: str) -> int:
    """How many cells the text takes: East Asian wide characters two, combining ones none."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, cells: int, align: Literal["left", "right"] = "left") -> str:
    """The text in exactly this number of cells, cut with … where it is longer.

    Control and direction characters become ?, because they would move what stands around them.
    """
    text = "".join(c if c.isprintable() else "?" for c in text)
    if cells_of(text) > cells:
        while cells_of(text) > cells - 1:
            text = text[:-1]
        text += "…"
    blanks = " " * (cells - cells_of(text))
    return text + blanks if align == "left" else blanks + text


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The headings, a rule, and one line for each row of cells."""
    headings = [column.heading for column in columns]
    widths = [
        column.cells or max(cells_of(row[at]) for row in [headings, *rows])
        for at, column in enumerate(columns)
    ]
    for row in (headings, ["─" * width for width in widths], *rows):
        cells = map(fit, row, widths, [column.align for column in columns])
        yield _GAP.join(cells).rstrip()


def percentile(values: Sequence[NumberT], percent: float) -> NumberT:
    """The nearest rank: the smallest value that at least `percent` of all do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


class Live:
    """Lines that change: overwritten on a terminal, else written again after `pause` seconds."""

    def __init__(self, write: Callable[[str], None], *, in_place: bool, pause: float) -> None:
        self._write = write
        self._in_place = in_place
        self._pause = pause
        self._next_at = 0.0
        self._height = 0

    def show(self, seconds: float, lines: Sequence[str], *, last: bool) -> None:
        """Show the lines as they are after these seconds; the last ones always."""
        if self._in_place:
            back = f"\x1b[{self._height}F" if self._height else ""
            self._write(back + "".join(f"{line}\x1b[K\n" for line in lines))
            self._height = len(lines)
        elif last or seconds >= self._next_at:
            # A blank line parts tables.
            gap = "\n" if self._next_at and len(lines) > 1 else ""
            self._write(gap + "".join(f"{line.rstrip()}\n" for line in lines))
            self._next_at = seconds + self._pause
