"""The result of work, in a few words for lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext, ngettext

from apps.common.admin.display import shown_text
from apps.common.masking import redact

FIELDS = 2
MAX_VALUE = 40
_PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic", ".avif")


def result_words(result: Any, fields: Sequence[str] = ()) -> str:
    """`counted 335 · unit box · 3 pictures`: the named fields or the first two with a plain value,
    and how many links to pictures there are; "" where there is nothing of it. Masked."""
    shown = redact(result)
    if not isinstance(shown, Mapping):
        return _value(shown) if _is_plain(shown) else ""
    plain = [name for name, value in shown.items() if _is_plain(value)]
    named = [name for name in fields if name in plain] or plain[:FIELDS]
    words = [f"{shown_text(name, limit=MAX_VALUE)} {_value(shown[name])}" for name in named]
    if count := _pictures(shown):
        words.append(ngettext("%d picture", "%d pictures", count) % count)
    return " · ".join(words)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not _is_picture(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return shown_text(str(value), limit=MAX_VALUE)


def _pictures(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_pictures, value.values()))
    if isinstance(value, list):
        return sum(map(_pictures, value))
    return int(_is_picture(value))


def _is_picture(value: Any) -> bool:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        return False
    try:
        return urlsplit(value).path.lower().endswith(_PICTURES)
    except ValueError:
        return False
