"""Draws tables and lines at a terminal; Python 3.9 or later, standard library only."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from .sdk import _instant

MAX_CELLS = 30


def cells_of(text: str) -> int:
    """How many cells of the terminal the text takes: East Asian wide characters two, combining
    ones none."""
    narrow = sum(not unicodedata.combining(character) for character in text)
    return narrow + sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def fit(text: str, most: int = MAX_CELLS) -> str:
    """The text in at most so many cells, cut with … where it is longer.

    Control and direction characters become ?, because they would move what stands around them.
    """
    text = "".join(c if c.isprintable() else "?" for c in text)
    if cells_of(text) <= most:
        return text
    while cells_of(text) >= most:
        text = text[:-1]
    return f"{text}…"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The headings, a rule, and one line for each row. Columns of a heading with > stand right."""
    right = [heading.startswith(">") for heading in headings]
    names = [heading.removeprefix(">") for heading in headings]
    widths = [max(map(cells_of, column)) for column in zip(names, *rows)]  # noqa: B905
    for line in (names, ["─" * width for width in widths], *rows):
        blanks = [" " * (width - cells_of(cell)) for width, cell in zip(widths, line)]  # noqa: B905
        yield "  ".join(
            blank + cell if is_right else cell + blank
            for blank, cell, is_right in zip(blanks, line, right)  # noqa: B905
        ).rstrip()


def shown(name: str, value: Any) -> str:
    """A value for people: times by the clock of this machine."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str) and (name == "at" or name.endswith(("_at", "_until"))):
        return _local(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _local(text: str) -> str:
    moment: datetime = _instant(text.replace("+00:00", "")).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def harmless(text: str) -> str:
    """Without what would move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def say(line: str) -> None:
    sys.stdout.write(harmless(line) + "\n")


def note(line: str) -> None:
    sys.stderr.write(harmless(line) + "\n")
