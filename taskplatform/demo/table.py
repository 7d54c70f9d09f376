"""Tables for a terminal, aligned by what each character takes up there."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_GAP = "  "
_CUT = "…"


@dataclass(frozen=True)
class Column:
    """A heading and how many cells of the terminal the column takes."""

    heading: str
    cells: int
    align: Literal["left", "right"] = "left"


def cells_of(text: str) -> int:
    """How many cells the text takes: East Asian wide characters two, combining ones none."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, cells: int, align: Literal["left", "right"] = "left") -> str:
    """The text in exactly so many cells, cut with … where it is longer.

    Control and direction characters become ?, because they would move what stands around them.
    """
    text = "".join(c if c.isprintable() else "?" for c in text)
    if cells_of(text) > cells:
        room = cells - 1
        kept = ""
        for character in text:
            room -= _cells(character)
            if room < 0:
                break
            kept += character
        text = kept + _CUT
    blanks = " " * (cells - cells_of(text))
    return text + blanks if align == "left" else blanks + text


def lines_of(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The headings, a rule, and one line for each row of cells."""
    yield _line(columns, [column.heading for column in columns])
    yield _GAP.join("─" * column.cells for column in columns)
    for row in rows:
        yield _line(columns, row)


def _line(columns: Sequence[Column], row: Sequence[str]) -> str:
    cells = (fit(cell, c.cells, c.align) for c, cell in zip(columns, row, strict=True))
    return _GAP.join(cells).rstrip()
