"""Persons and groups by their names: initials, the title, and the uid small beside it."""

from __future__ import annotations

import re
from zlib import crc32

from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.common.admin.display import shown_text
from apps.common.admin.html import attribute

COLOURS = 6
MAX_TITLE = 80
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")


def who(name: str, title: str, *, url: str = "", is_group: bool = False) -> SafeString:
    """Somebody of this uid and title, as a link if there is an address; groups are square."""
    look = f"who who-{crc32(name.encode()) % COLOURS}{' who-group' if is_group else ''}"
    shown = shown_text(title or name, limit=MAX_TITLE)
    return format_html(
        '<{0}{1} class="{2}" data-initials="{3}"><bdi>{4}</bdi>{5}</{0}>',
        "a" if url else "span",
        attribute("href", url),
        look,
        initials(title or name.partition("_")[2]),
        shown,
        format_html(" <small>{}</small>", name) if title else "",
    )


def initials(title: str) -> str:
    """Of the first and the last Latin word, as in `GO`; else the last two characters."""
    words: list[str] = _LATIN.findall(title)
    if not words:
        return "".join(title.split())[-2:]
    return (words[0][0] + (words[-1][0] if len(words) > 1 else "")).upper()
