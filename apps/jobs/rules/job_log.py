"""The log of an attempt: how its lines are written, and how many of them are stored.

A line begins with its time, `2026-11-27T13:52:46.123Z `, and may have line breaks of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from apps.common.texts import begin_of

# Of one attempt, in UTF-8.
MAX_BYTES = 64 * 1024
# Of one line, in characters.
MAX_LINE = 8_000
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", re.ASCII)
# A time where a text goes on in a line of its own: it would be read as that of a further line.
_FORGED = re.compile(rf"(?<=[\n\r])(?={_STAMP.pattern})", re.ASCII)
_LENGTH = len("2026-11-27T13:52:46.123Z ")
# What gives text a colour. Programs colour names and values, which then no longer stand side by
# side: the value of a secret would not be known for one.
_COLOUR = re.compile("(?:\x1b\\[|\x9b)[0-9;:]*m")
# What moves the cursor of a terminal, ends a line for some readers, or cannot be stored.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LogLines:
    """Further lines of the log of an attempt, as its worker sends them.

    `at` is how many lines came before them: those that are stored already are not stored again;
    None: all are new. `left_out` lines behind them its worker has left out. `are_first`: its worker
    has never tried to send any, thus none are stored.
    """

    lines: Sequence[str] = ()
    at: int | None = None
    left_out: int = 0
    are_first: bool = False

    def __bool__(self) -> bool:
        return bool(self.lines or self.left_out)

    @property
    def texts(self) -> list[str]:
        """The lines without their times."""
        return [line[_LENGTH:] for line in self.lines]


class StoredLog(NamedTuple):
    """The stored log of an attempt: how many lines its worker has sent, and the bytes that they
    take."""

    lines: int = 0
    size: int = 0


class Part(NamedTuple):
    """A part to store: of `lines` that were sent the last `left_out` are not in `text`.
    It takes `size` bytes: when lines are left out, all that there was room for."""

    text: str
    lines: int
    left_out: int
    size: int


# --- lines ----------------------------------------------------------------------------------------
def line(at: float, text: str) -> str:
    """The line of a text that was said then, in seconds since 1970."""
    return f"{_stamp(int(at * 1000))}{_fit(text)}"


@lru_cache(maxsize=64)
def _stamp(milliseconds: int) -> str:
    seconds, part = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{part:03d}Z "


def lines_of(texts: Sequence[str], now: datetime) -> list[str]:
    """The lines of texts that a worker sends; those without a time have that of their arrival."""
    at = now.timestamp()
    return [
        line(at, text) if _time_of(text) is None else f"{text[:_LENGTH]}{_fit(text[_LENGTH:])}"
        for text in texts
    ]


def _time_of(text: str) -> datetime | None:
    """The time that the text begins with; None without one."""
    try:
        return datetime.fromisoformat(text[: _LENGTH - 1]) if _STAMP.match(text) else None
    except ValueError:
        return None


def _fit(text: str) -> str:
    """The text as one line, or as much of a long one as a line takes."""
    if "\n" in text or "\r" in text:
        text = _FORGED.sub(" ", text)
    if len(text) <= MAX_LINE:
        return text
    begin = begin_of(text, MAX_LINE)
    return f"{begin} … {len(text) - len(begin)} characters left out …"


def harmless(text: str) -> str:
    """The text without colours, with escapes in place of characters that harm a database or a
    terminal."""
    if not _HARMFUL.search(text):
        return text
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), plain)


# --- what is kept ---------------------------------------------------------------------------------
def fitting(added: LogLines, before: StoredLog) -> Part:
    """The part to store of these lines, in the room that the stored ones leave."""
    known = 0 if added.at is None else max(0, before.lines - added.at)
    new = added.lines[known:]
    left_out = max(0, added.left_out - max(0, known - len(added.lines)))
    room = MAX_BYTES - before.size
    text = harmless("\n".join(new))
    size = len(text.encode()) + 1 if new else 0
    if size <= room and not left_out:
        return Part(text, len(new), 0, size)
    texts: list[str] = []
    left = room
    for each in map(harmless, new):
        left -= len(each.encode()) + 1
        if left < 0:
            break
        texts.append(each)
    lines = len(new) + left_out
    return Part("\n".join(texts), lines, lines - len(texts), room)


# --- what is shown --------------------------------------------------------------------------------
class Line(NamedTuple):
    """A line as it is read; `at` is None where no time is known."""

    at: datetime | None
    text: str


def read(text: str) -> list[Line]:
    """The lines of a text that is kept."""
    begins = [found.start() + 1 for found in re.finditer(r"\n(?=\d{4}-)", text)]
    begins = [0, *(begin for begin in begins if _STAMP.match(text, begin))]
    ends = [*(begin - 1 for begin in islice(begins, 1, None)), len(text)]
    return [_read(text[begin:end]) for begin, end in zip(begins, ends, strict=True) if text]


def _read(text: str) -> Line:
    at = _time_of(text)
    return Line(at, text if at is None else text[_LENGTH:])
