"""The result of work, in a few words for lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext, ngettext

from apps.common.admin.display import shown_text
from apps.common.masking import is_secret, redact, redact_some
from apps.common.texts import begin_of

FIELDS = 2
MAX_VALUE = 40
# The letters of a text that are masked for that: a list has 100 rows, and a result 250,000 letters.
_MOST = 1_000
_PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic", ".avif")


def result_words(result: Any, fields: Sequence[str] = ()) -> str:
    """`counted 335 · unit box · 3 pictures`: the named fields or the first two with a plain value,
    and how many links to pictures there are; "" where there is nothing of it. Masked."""
    if not isinstance(result, Mapping):
        return _value(redact(_begin(result)), result) if _is_plain(result) else ""
    plain = [name for name, value in result.items() if is_secret(name) or _is_plain(value)]
    named = [name for name in fields if name in plain] or plain[:FIELDS]
    shown = redact_some(result, named, most=_MOST)
    words = [
        f"{shown_text(name, limit=MAX_VALUE)} {_value(value, result[key])}"
        for key, (name, value) in zip(named, shown, strict=True)
    ]
    if count := _pictures(result):
        words.append(ngettext("%d picture", "%d pictures", count) % count)
    return " · ".join(words)


def _begin(value: Any) -> Any:
    return begin_of(value, _MOST) if isinstance(value, str) else value


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not _is_picture(value)


def _value(shown: Any, stored: Any) -> str:
    if isinstance(shown, bool):
        return gettext("yes") if shown else gettext("no")
    if isinstance(stored, str) and len(stored) > _MOST:
        return f"{shown_text(shown[:MAX_VALUE])} …"
    return shown_text(str(shown), limit=MAX_VALUE)


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
