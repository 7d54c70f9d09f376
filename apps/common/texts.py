"""Texts from outside that are too long to be kept.

They are cut between two words, before anybody masks them: a part of a secret might no longer be
known for one, such as the password in an address that has lost its `@`.
"""

from __future__ import annotations

import re

# How long a word may be that is not cut.
_MAX_WORD = 2_000
_BLANKS = re.compile(r"\s")


def begin_of(text: str, most: int) -> str:
    """As many of the first characters as whole words have, `most` at most."""
    if len(text) <= most:
        return text
    # Words of one text are not always parted, and something of it is to be left.
    least = max(most // 2, most - _MAX_WORD)
    ends = [found.start() for found in _BLANKS.finditer(text, least, most + 1)]
    return text[: ends[-1] if ends else least]


def end_of(text: str, most: int) -> str:
    """As many of the last characters as whole words have, `most` at most."""
    return begin_of(text[::-1], most)[::-1]
