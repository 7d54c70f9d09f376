"""Private keys of which each line is a text of its own, as in logs: no text says by itself that it
is part of one."""

from __future__ import annotations

import re

from apps.common.masking.patterns import MASK

# What such a key begins with, in capitals in every tool.
BEGIN = "PRIVATE KEY"
_BEGIN = re.compile(rf"-----BEGIN[A-Z ]{{0,40}} {BEGIN}(?: BLOCK)?-----")
_END = "-----END"
# A line of the key: its code, also behind what a program puts before each line, and long code
# wherever it ends a line. What stands between is said by others, or is a header of the key.
_CODE = re.compile(
    r"(?:.*[:\])>|\-]\s+)?\s*[A-Za-z0-9+/]+={0,2}\s*"
    r"|.*(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{16,}=*\W*"
)
# A key that nobody ends; one of 16,384 bits has 200 lines.
_MOST = 250


class KeyLines:
    """Hides the lines of a private key from texts, to be asked about each in their order."""

    def __init__(self) -> None:
        self._left = 0

    def hide(self, text: str) -> str:
        """The text, with MASK in place of what belongs to a key that has begun in one before."""
        if not self._left:
            self._left = _MOST if BEGIN in text and _is_left_open(text) else 0
            return text
        self._left -= 1
        code, end, rest = text.partition(_END)
        if end:
            self._left = 0
        return MASK + end + rest if any(map(_CODE.fullmatch, code.splitlines())) else text


def _is_left_open(text: str) -> bool:
    begins = [found.end() for found in _BEGIN.finditer(text)]
    return bool(begins) and text.find(_END, begins[-1]) < 0
