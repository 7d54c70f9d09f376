"""How values look in lists and on pages: labels, bars, JSON with its secrets redacted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, TypeVar

from django.db.models import TextChoices
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html, strip_tags
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import get_current_timezone_name, localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from apps.common import clock
from apps.common.admin.html import bullets, noted
from apps.common.admin.unseen import with_all_seen
from apps.common.durations import in_units
from apps.common.masking import redact
from apps.common.messages import Message
from apps.common.zones import offset_name

Shown = Callable[[Any, Any], SafeString]
Method = TypeVar("Method", bound=Callable[..., Any])

MAX_JSON = 20_000
MAX_TEXT = 4_000

_CHINESE = "\u3001-\u3011\u3400-\u9fff\uff01-\uff1f"

# The colours of `label`; "" is grey.
COLOURS = ("", "info", "success", "warning", "danger", "primary")


def label(text: object, colour: str = "") -> SafeString:
    """The text beside a small coloured shape; `colour` is one of COLOURS."""
    look = f"mark mark-{colour}" if colour else "mark"
    return SafeString(f'<span class="{look}">{conditional_escape(str(text))}</span>')


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
    text = with_all_seen(text)
    if cut > 0:
        text += " … " + ngettext("(%d more character)", "(%d more characters)", cut) % cut
    return text


def beside(first: str, second: str) -> str:
    """The two with a blank between them, but between two Chinese characters or marks."""
    return f"{first}{'' if _is_chinese(first[-1:]) and _is_chinese(second[:1]) else ' '}{second}"


def filled(text: str, **parts: object) -> SafeString:
    """The text with the parts in its braces, escaped; no blank stays between a part and the text
    beside it where both are Chinese, as in `beside`."""
    for name, part in parts.items():
        plain = strip_tags(format_html("{}", part))
        if _is_chinese(plain[:1]):
            text = re.sub(rf"(?<=[{_CHINESE}]) (?={{{name}}})", "", text)
        if _is_chinese(plain[-1:]):
            text = re.sub(rf"(?<={{{name}}}) (?=[{_CHINESE}])", "", text)
    return format_html(text, **parts)


def labelled(label: object, text: object) -> str:
    """`Status: failed`."""
    return _("{label}: {text}").format(label=label, text=text)


def _is_chinese(letter: str) -> bool:
    return re.fullmatch(f"[{_CHINESE}]", letter) is not None


def listed(words: Iterable[object]) -> str:
    """`failed, cancelled`: words one after another, divided as in the language of the page."""
    between = pgettext("the words of a list", "%s, %s") % ("", "")
    return between.join(map(str, words))


def parted(parts: Iterable[object]) -> str:
    """`Retry → ready; Cancel → cancelled`: parts that are longer than words, divided likewise."""
    between = pgettext("the parts of a sentence", "%s; %s") % ("", "")
    return between.join(map(str, parts))


def shown_actor(actor: str) -> str:
    """The actor for pages: people by their names, API keys and the platform with their kind."""
    return shown_text(actor.removeprefix("admin:"))


def translate(text: str) -> str:
    """A message of a rule or service in the language and time zone of the page."""
    return text.translated(_, plain_time) if isinstance(text, Message) else text


def plain_time(at: datetime) -> str:
    """`2026-03-31 09:30:00 UTC+8`: the instant in the time zone of the page, without markup."""
    local = _local(at)
    return " ".join((*_parts(local), offset_name(local)))


def page_zone() -> str:
    """`Asia/Shanghai, UTC+8`: the zone of the page and what its clocks are from UTC now."""
    name, offset = get_current_timezone_name(), offset_name(localtime())
    return name if name == offset else f"{name}, {offset}"


def _local(at: datetime) -> datetime:
    """The instant in the time zone of the page; in UTC where that zone would leave the calendar."""
    try:
        return localtime(at)
    except OverflowError:
        return at.astimezone(UTC)


def _parts(local: datetime) -> tuple[str, str]:
    return date_format(local, "SHORT_DATE_FORMAT"), date_format(local, "TIME_FORMAT")


def text_column(
    field: str, description: str | Promise, *, limit: int = 80, ordering: str | None = None
) -> Callable[[Any, Any], str]:
    """A column of text from outside, as shown_text shows it."""

    @column(description, ordering=ordering)
    def shown(_admin: Any, row: Any) -> str:
        return shown_text(getattr(row, field), limit=limit)

    return shown


def error_column(
    field: str, description: str | Promise, *, limit: int = MAX_TEXT
) -> Callable[[Any, Any], str]:
    """A column of a text in which anything may be, such as an error: with its secrets masked."""

    @column(description)
    def shown(_admin: Any, row: Any) -> str:
        return shown_text(redact(getattr(row, field)), limit=limit)

    return shown


def time_column(
    field: str, description: str | Promise, *, ordering: str | None = None
) -> Callable[[Any, Any], SafeString | None]:
    """A column of instants, as moment_time shows them; short in lists."""

    @column(description, ordering=ordering)
    def shown(_admin: Any, row: Any) -> SafeString | None:
        instant = getattr(row, field)
        return None if instant is None else moment_time(instant)

    return in_lists(shown, lambda row: short_or_none(getattr(row, field)))


def zoned_time_column(
    field: str, description: str | Promise, *, ordering: str | None = None
) -> Callable[[Any, Any], SafeString | None]:
    """A column of instants of rows with a rule, which shows them in the zone of that, too."""

    @column(description, ordering=ordering)
    def shown(_admin: Any, row: Any) -> SafeString | None:
        instant = getattr(row, field)
        return None if instant is None else moment_time(instant, also=row.recurrence.zone)

    return in_lists(shown, lambda row: short_or_none(getattr(row, field), also=row.recurrence.zone))


@column(gettext_lazy("rule"))
def shown_rule(_admin: Any, row: Any) -> str:
    """The rule of the row in plain words."""
    return translate(row.summary)


@column(gettext_lazy("rule"))
def rule_words(_admin: Any, row: Any) -> SafeString:
    """The rule of the row in plain words, in a cell of a list."""
    return format_html('<span class="cell-words">{}</span>', translate(row.summary))


def shown_time(instant: datetime, *, also: tzinfo | None = None) -> SafeString:
    """The instant in the time zone of the page, its UTC as a tooltip, and below it in the zone
    `also` if clocks show something else there; lines break only between date and time."""
    local = _local(instant)
    day, time = _parts(local)
    here = format_html(
        '<time datetime="{}" title="{}"><span class="unbroken">{}</span> '
        '<span class="unbroken">{} <span class="zone">{}</span></span></time>',
        local.isoformat(),
        f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        day,
        time,
        offset_name(local),
    )
    if also is None:
        return here
    other = instant.astimezone(also)
    if other.utcoffset() == local.utcoffset():
        return here
    other_day, other_time = _parts(other)
    # Once for UTC, whose name is its offset.
    words = [other_time, *dict.fromkeys((offset_name(other), str(also)))]
    return noted(here, " ".join(words if other_day == day else [other_day, *words]))


def short_time(instant: datetime, *, also: tzinfo | None = None) -> SafeString:
    """The instant as `short_text`, with the whole of it as a tooltip, also in the zone `also`."""
    return titled_time(instant, short_text(instant), also)


def moment_time(instant: datetime, *, also: tzinfo | None = None) -> SafeString:
    """The instant as the page of one row says it, with the whole of it as a tooltip: like
    `short_text`, but today to the second, and before seven days with its time of day, too."""
    local, now = _local(instant), _local(clock.now())
    days = (local.date() - now.date()).days
    return titled_time(instant, _said(local, days, to_second=True), also)


def titled_time(
    instant: datetime, said: str, also: tzinfo | None = None, *, look: str = ""
) -> SafeString:
    """The instant in these words, with the whole of it as a tooltip, also in the zone `also`."""
    local = _local(instant)
    whole = plain_time(instant)
    if also is not None and (other := instant.astimezone(also)).utcoffset() != local.utcoffset():
        whole = f"{whole} · {' '.join(_parts(other))} {offset_name(other)} {also}"
    return format_html(
        '<time{} datetime="{}" title="{}">{}</time>',
        format_html(' class="{}"', look) if look else "",
        f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        whole,
        said,
    )


def short_text(instant: datetime) -> str:
    """The instant as lists and sentences say it: `20:10` today, `Wed 19:55` within seven days,
    `12 Nov` before and `12 Dec 09:00` after."""
    local, now = _local(instant), _local(clock.now())
    days = (local.date() - now.date()).days
    return _day(local) if days <= -7 else _said(local, days)


def _said(local: datetime, days: int, *, to_second: bool = False) -> str:
    """The time of a day that is so many days from today."""
    if not days:
        return f"{local:%H:%M:%S}" if to_second else f"{local:%H:%M}"
    day = date_format(local, "D") if abs(days) < 7 else _day(local)
    return f"{day} {local:%H:%M}"


def _day(local: datetime) -> str:
    if local.year == _local(clock.now()).year:
        return date_format(local, pgettext("a day of this year", "j M"))
    return date_format(local, pgettext("a day of another year", "j M Y"))


def short_or_none(instant: datetime | None, *, also: tzinfo | None = None) -> SafeString | None:
    """The instant as `short_time` shows it; None for None."""
    return None if instant is None else short_time(instant, also=also)


def in_lists(method: Method, short: Callable[[Any], Any]) -> Method:
    """The method of a column, whose cells in lists show `short` of the row instead."""
    method.in_list = short  # type: ignore[attr-defined]
    return method


def due_list(instants: Iterable[datetime], zone: tzinfo | None) -> SafeString:
    """The instants, each also in the zone of the rule; a sentence when there is none."""
    times = (shown_time(instant, also=zone) for instant in instants)
    listed = bullets(times, "plain-list due-list", tag="ol")
    return listed or format_html("<p>{}</p>", _("None."))


def duration_of(milliseconds: int) -> str:
    """`340 ms`, `1.8 s`, `38 s`, `2 min 19 s`, `1 h`, `2 d 3 h`: as precise as people need it."""
    sign, length = "-" if milliseconds < 0 else "", abs(milliseconds)
    if 0 < length < 1000:
        return _("{count} ms").format(count=milliseconds)
    tenths = Decimal(length).scaleb(-3).quantize(Decimal("0.1"))
    if tenths < 10:
        return sign + in_units(tenths).translated(_)
    seconds = Decimal((length + 500) // 1000)
    # Two units at most; the rest below the second one is left out.
    for unit, smaller in ((86_400, 3_600), (3_600, 60)):
        if seconds >= unit:
            return sign + in_units(seconds - seconds % smaller).translated(_)
    return sign + in_units(seconds).translated(_)


def size_of(count: float) -> str:
    """Bytes as people say them: `950 KB`, `1.2 GB`, `84 GB`."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if 0 < value < 10 and unit != "B" else f"{value:.0f} {unit}"


def choice_word(choices: type[TextChoices], value: str) -> str:
    """A value with choices in words; as it is stored, one that this release does not know, because
    a newer one has written it."""
    try:
        return capfirst(str(choices(value).label))
    except ValueError:
        return shown_text(value, limit=80)


def choice_label(
    choices: type[TextChoices], value: str, colours: Mapping[Any, str], otherwise: str = ""
) -> SafeString:
    """`choice_word` in the colour of the value, else in the colour `otherwise`."""
    return label(choice_word(choices, value), colours.get(value, otherwise))


def state_label(
    field: str, colours: Mapping[Any, str], description: str | Promise, *, ordering: bool = True
) -> Shown:
    """A column that shows a field with choices as a coloured label."""

    @column(description, ordering=field if ordering else None)
    def shown(_admin: Any, row: Any) -> SafeString:
        text = capfirst(str(getattr(row, f"get_{field}_display")()))
        return label(text, colours.get(getattr(row, field), ""))

    return shown


def quota_bar(handed: int, times: int, *, of_members: bool = False) -> SafeString:
    """How much of a quota is handed out; `of_members`: once to each of so many."""
    meaning = _("%(handed)d of %(times)d handed out")
    if of_members:
        meaning = _("%(handed)d of %(times)d members")
    return count_bar(handed, times, f"{handed} / {times}", meaning)


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


def count_bar(handed: int, times: int, text: str, meaning: str) -> SafeString:
    """A bar of so many of a number, the text beside it; `meaning` says it with `%(handed)d` and
    `%(times)d`."""
    is_full = 0 < times <= handed
    return format_html(
        '<span class="quota" title="{meaning}"><progress class="quota-bar{full}" max="{times}"'
        ' value="{handed}" aria-label="{meaning}"></progress>'
        '<span class="quota-text">{text}</span></span>',
        meaning=meaning % {"handed": handed, "times": times},
        full=" quota-full" if is_full else "",
        times=max(1, times),
        handed=min(handed, times),
        text=text,
    )


def pretty_json(value: Any) -> SafeString:
    """The JSON value indented, its secrets masked, at most MAX_JSON characters."""
    return indented_json(redact(value))


def indented_json(masked: Any) -> SafeString:
    """`pretty_json` of a value whose secrets are masked already."""
    text = json.dumps(masked, indent=2, ensure_ascii=False)
    return format_html('<pre class="json">{}</pre>', shown_text(text, limit=MAX_JSON))
