"""How values look in lists and on pages: labels, bars, JSON with its secrets redacted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.template.loader import render_to_string
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.common.conf import conf
from apps.common.messages import Message

Shown = Callable[[Any, Any], SafeString]
Method = TypeVar("Method", bound=Callable[..., Any])

MASK = "••••••"
MAX_JSON = 20_000
MAX_TEXT = 4_000

# Control characters and marks of text direction: they could hide or reorder text, or run commands
# when copied to a terminal.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


# The colours of `label`; "" is grey.
COLOURS = ("", "info", "success", "warning", "danger", "primary")


def label(text: object, colour: str = "") -> SafeString:
    """The text as a small coloured label; `colour` is one of COLOURS."""
    html = render_to_string("unfold/helpers/label.html", {"text": text, "type": colour})
    # strip() on a SafeString returns a plain str, which would be escaped again.
    return SafeString(html.strip())


def column(
    description: str | Promise, *, ordering: str | None = None
) -> Callable[[Method], Method]:
    """Django's `admin.display` for methods of any shape: the heading of a column or field."""

    def decorate(method: Method) -> Method:
        method.short_description = description  # type: ignore[attr-defined]
        method.admin_order_field = ordering  # type: ignore[attr-defined]
        return method

    return decorate


def shown_text(text: str, *, limit: int = MAX_TEXT) -> str:
    """Text from outside, cut to `limit`, its invisible characters escaped (`\\u202e`)."""
    cut = len(text) - limit
    if cut > 0:
        text = text[:limit]
    text = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if cut > 0:
        text += " … " + ngettext("(%d more character)", "(%d more characters)", cut) % cut
    return text


def translate(text: str) -> str:
    """A message of a rule or service in the language and time zone of the page."""
    return text.translated(_, _short_time) if isinstance(text, Message) else text


def _short_time(at: datetime) -> str:
    return date_format(localtime(at), "SHORT_DATETIME_FORMAT")


def text_column(
    field: str, description: str | Promise, *, limit: int = 80, ordering: str | None = None
) -> Callable[[Any, Any], str]:
    """A column of text from outside, as shown_text shows it."""

    @column(description, ordering=ordering)
    def shown(_admin: Any, row: Any) -> str:
        return shown_text(getattr(row, field), limit=limit)

    return shown


def time_column(
    field: str, description: str | Promise, *, ordering: str | None = None
) -> Callable[[Any, Any], SafeString | None]:
    """A column of instants, as shown_time shows them."""

    @column(description, ordering=ordering)
    def shown(_admin: Any, row: Any) -> SafeString | None:
        instant = getattr(row, field)
        return None if instant is None else shown_time(instant)

    return shown


def shown_time(instant: datetime) -> SafeString:
    """The instant in the time zone of the page; lines break only between date and time."""
    local = localtime(instant)
    return format_html(
        '<time datetime="{}"><span class="unbroken">{}</span> '
        '<span class="unbroken">{}</span></time>',
        local.isoformat(),
        date_format(local, "SHORT_DATE_FORMAT"),
        date_format(local, "TIME_FORMAT"),
    )


def duration_of(milliseconds: int) -> str:
    """`340 ms`, `12.5 s`, `3 min 20 s`, `5 h 10 min`, `2 d 3 h`."""
    seconds = milliseconds / 1000
    if abs(seconds) < 1:
        return _("%d ms") % milliseconds
    if abs(seconds) < 60:
        return _("%.1f s") % seconds
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}


def state_label(
    field: str, colours: Mapping[Any, str], description: str | Promise, *, ordering: bool = True
) -> Shown:
    """A column that shows a field with choices as a coloured label."""

    @column(description, ordering=field if ordering else None)
    def shown(_admin: Any, row: Any) -> SafeString:
        text = capfirst(str(getattr(row, f"get_{field}_display")()))
        return label(text, colours.get(getattr(row, field), ""))

    return shown


def quota_bar(handed: int, times: int | None) -> SafeString:
    """How much of a quota is handed out; `times` None means no limit."""
    if times is None:
        text = ngettext("%d handed out", "%d handed out", handed) % handed
        return format_html(
            '<span class="quota"><span class="quota-text" title="{}">{}</span></span>',
            _("%s; every member once") % text,
            f"{handed} / ∞",
        )
    return _bar(handed, times, f"{handed} / {times}", _("%(handed)d of %(times)d handed out"))


def progress_bar(done: float) -> SafeString:
    """A bar of progress, 0 to 1."""
    percent = round(100 * min(max(done, 0.0), 1.0))
    return format_html(
        '<span class="quota"><progress class="quota-bar" max="100" value="{}" aria-label="{}">'
        '</progress><span class="quota-text">{} %</span></span>',
        percent,
        _("%d %% done") % percent,
        percent,
    )


def _bar(handed: int, times: int, text: str, meaning: str) -> SafeString:
    is_full = handed >= times
    return format_html(
        '<span class="quota" title="{meaning}"><progress class="quota-bar{full}" max="{times}"'
        ' value="{handed}" aria-label="{meaning}"></progress>'
        '<span class="quota-text">{text}</span></span>',
        meaning=meaning % {"handed": handed, "times": times},
        full=" quota-full" if is_full else "",
        times=times,
        handed=min(handed, times),
        text=text,
    )


def _same(key: str) -> str:
    return re.sub("[-_ ]", "", key).casefold()


def is_secret(key: str) -> bool:
    """Whether values under this key are secrets; `api_key`, `API-Key` and `apiKey` are equal."""
    return _same(key) in {_same(name) for name in conf.MASKED_KEYS}


def redacted(value: Any) -> Any:
    """The JSON value with MASK instead of every value under one of MASKED_KEYS."""
    if isinstance(value, dict):
        return {key: MASK if is_secret(key) else redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    return value


def unredacted(edited: Any, stored: Any) -> Any:
    """The edited JSON value with the stored secrets wherever MASK was left."""
    if isinstance(edited, dict) and isinstance(stored, dict):
        return {
            key: stored[key]
            if item == MASK and is_secret(key) and key in stored
            else unredacted(item, stored.get(key))
            for key, item in edited.items()
        }
    if isinstance(edited, list) and isinstance(stored, list):
        return [
            unredacted(item, stored[position] if position < len(stored) else None)
            for position, item in enumerate(edited)
        ]
    return edited


def pretty_json(value: Any) -> SafeString:
    """The JSON value indented, its secrets redacted, at most MAX_JSON characters."""
    text = json.dumps(redacted(value), indent=2, ensure_ascii=False)
    return format_html('<pre class="json">{}</pre>', shown_text(text, limit=MAX_JSON))


def json_field(field: str, description: str | Promise) -> Shown:
    """A read-only field of JSON; name it in `payload_fields` when it may hold secrets."""

    @column(description)
    def shown(_admin: Any, row: Any) -> SafeString:
        value = getattr(row, field)
        return SafeString("–") if value is None else pretty_json(value)

    return shown
