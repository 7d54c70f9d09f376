"""Persons and groups by their names: initials, the title, and the uid small beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.common.admin.display import shown_text
from apps.common.admin.html import attribute

COLOURS = 6
MAX_TITLE = 80
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")


class Known(NamedTuple):
    """Somebody whose title and page this account may see."""

    name: str
    title: str = ""
    url: str = ""
    is_group: bool = False

    @property
    def shown(self) -> SafeString:
        return who(self.name, self.title, url=self.url, is_group=self.is_group)

    @property
    def text(self) -> str:
        """As sentences name them: `Ann Baker (uid_ann)`."""
        return f"{self.title} ({self.name})" if self.title else self.name


# Those of the names that the account may see, in one statement; added by the box of the people.
Finder = Callable[[Iterable[str], Any], Iterable[Known]]
FINDERS: list[Finder] = []


def known(names: Iterable[str], user: Any) -> Mapping[str, Known]:
    """Whom these names stand for, as far as this account may see; no statement without names."""
    wanted = {name for name in names if name}
    found = (each for find in FINDERS for each in find(wanted, user)) if wanted else ()
    return {name: Known(name) for name in wanted} | {each.name: each for each in found}


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
    """The first letters of first and last Latin word, as in `GO`; else the last two characters."""
    words: list[str] = _LATIN.findall(title)
    if not words:
        return "".join(title.split())[-2:]
    return (words[0][0] + (words[-1][0] if len(words) > 1 else "")).upper()
