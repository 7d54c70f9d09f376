"""The time of the page, and sentences of watches in its language."""

from __future__ import annotations

from datetime import datetime

from django.utils.timezone import localtime
from django.utils.translation import gettext

from apps.common.admin.display import short_text, shown_text
from apps.common.messages import Message
from apps.common.zones import offset_name

_MAX_TEXT = 600


def zoned_clock(at: datetime) -> str:
    """`20:24:05 UTC+8`."""
    local = localtime(at)
    return f"{local:%H:%M:%S} {offset_name(local)}"


def worded(text: str) -> str:
    """A sentence of a watch in the language of the page, its times short."""
    if isinstance(text, Message):
        text = text.translated(gettext, short_text)
    return shown_text(text, limit=_MAX_TEXT)
