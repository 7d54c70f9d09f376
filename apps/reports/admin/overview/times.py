"""Times as people say them: `20:10` today, `Wed 19:55` within a week, `12 Nov` else."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext, pgettext

from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.messages import Message
from apps.common.zones import offset_name

_WEEK = timedelta(days=7)
_MAX_TEXT = 600


def short_time(at: datetime) -> str:
    """The time in the time zone of the page, as short as people say it."""
    local, today = localtime(at), localtime(clock.now())
    if local.date() == today.date():
        return f"{local:%H:%M}"
    if abs(local - today) < _WEEK:
        return f"{date_format(local, 'D')} {local:%H:%M}"
    return date_format(local, pgettext("short date", "j M"))


def zoned_clock(at: datetime) -> str:
    """`20:24:05 UTC+8`."""
    local = localtime(at)
    return f"{local:%H:%M:%S} {offset_name(local)}"


def worded(text: str) -> str:
    """A sentence of a watch in the language of the page, its times short."""
    if isinstance(text, Message):
        text = text.translated(gettext, short_time)
    return shown_text(text, limit=_MAX_TEXT)
