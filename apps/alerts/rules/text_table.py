"""A table as plain text: columns beside each other, figures to the right."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_GAP = "  "


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows, of which the first is the heading; the first column is a name."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *figures = (
        cell + _pad(cell, width) if position == 0 else _pad(cell, width) + cell
        for position, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return _GAP.join([name, *figures]).rstrip()


def _pad(cell: str, width: int) -> str:
    return " " * (width - _width(cell))


def _width(text: str) -> int:
    """The width of a text in columns of a terminal: Chinese letters take two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
