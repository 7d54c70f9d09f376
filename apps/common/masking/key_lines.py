"""Private keys of which each line is a text of its own, as in logs and in lists: no text says by
itself that it is part of one."""

from __future__ import annotations

import re

from apps.common.masking.patterns import MASK

# What such a key begins with, in capitals in every tool.
BEGIN = "PRIVATE KEY"
_BEGIN_SOURCE = rf"-----BEGIN[A-Z ]{{0,40}} {BEGIN}(?: BLOCK)?-----"
_BEGIN = re.compile(_BEGIN_SOURCE)
_END = "-----END"
# A line of the key: its code, also behind what a program puts before each line, and long code
# wherever it ends a line. What stands between is said by others, or is a header of the key. Nothing
# that was taken is given back, so that each line is read once.
_SHORT = re.compile(r"(?:.*[:\])>|\-]\s++)?+\s*+[A-Za-z0-9+/]++={0,2}+\s*+")
_LONG = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{16,}+\W*+\Z")
# Shorter names are words.
_MIN_NAME = 16
# A key that nobody ends; one of 16,384 bits has 200 lines.
_MOST = 250


class KeyLines:
    """Hides the lines of a private key from texts, to be asked about each in their order."""

    def __init__(self) -> None:
        self._left = 0

    def hide(self, text: str) -> str:
        """The text, with MASK in place of what belongs to a key that has begun in one before."""
        if self._left:
            self._left -= 1
            code, end, rest = text.partition(_END)
            if not end:
                return MASK if _has_code(code) else text
            self._left = 0
            # Another one may begin behind it.
            return (MASK if _has_code(code) else code) + end + self.hide(rest)
        if BEGIN in text and _is_left_open(text):
            self._left = _MOST
        return text

    def hide_name(self, name: str) -> str:
        """The same for the name of a value."""
        is_word = self._left and len(name) < _MIN_NAME and _END not in name
        return name if is_word else self.hide(name)


def behind_begin(text: str) -> str | None:
    """A regular expression for JSON in which the text may be a line of a key that has begun, alike
    in Python, MariaDB and MySQL; None when it is no such line."""
    line = next(filter(_is_code, text.splitlines()), None)
    if line is None:
        return None
    code = re.findall(r"[A-Za-z0-9+/]+", line)[-1]
    return rf"{_BEGIN_SOURCE}(?:(?!{_END}|{_BEGIN_SOURCE})[\s\S])*?{re.escape(code)}"


def _has_code(text: str) -> bool:
    return any(map(_is_code, text.splitlines()))


def _is_code(line: str) -> bool:
    return bool(_SHORT.fullmatch(line) or _LONG.search(line))


def _is_left_open(text: str) -> bool:
    begins = [found.end() for found in _BEGIN.finditer(text)]
    return bool(begins) and text.find(_END, begins[-1]) < 0
