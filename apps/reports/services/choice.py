"""The report that an address asks for. Every report can be bookmarked; bad values are reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import translate
from apps.common.errors import Invalid
from apps.common.readers import read_instant, read_key
from apps.common.zones import parse_zone, start_of_day
from apps.reports.rules.outcomes import DISPATCH, FLOW, JOB, STEP
from apps.reports.services.summary import (
    DAY,
    HOUR,
    LONGEST,
    LONGEST_BY_MINUTE,
    MINUTE,
    THROUGH_TIME,
    Period,
)

SOURCES = {
    JOB: _("Jobs"),
    DISPATCH: _("Dispatches"),
    FLOW: _("Flows"),
    STEP: _("Steps of flows"),
}
GROUPS = {
    JOB: ("type", "host", "worker"),
    DISPATCH: ("task", "executor"),
    FLOW: ("flow",),
    STEP: ("step",),
}
TABS = {
    "type": _("By type"),
    "task": _("By task"),
    "flow": _("By flow"),
    "step": _("By step"),
    "executor": _("By person"),
    "host": _("By host"),
    "worker": _("By worker"),
    MINUTE: _("By minute"),
    HOUR: _("By hour"),
    DAY: _("By day"),
}
PRESETS = {
    "1h": (timedelta(hours=1), _("Last hour")),
    "24h": (timedelta(hours=24), _("24 hours")),
    "7d": (timedelta(days=7), _("7 days")),
    "30d": (timedelta(days=30), _("30 days")),
    "90d": (timedelta(days=90), _("90 days")),
}
# Months by the clocks of the report's zone.
THIS_MONTH, LAST_MONTH = "month", "last_month"
PRESET_TITLES: dict[str, str | Promise] = {
    **{name: title for name, (_length, title) in PRESETS.items()},
    THIS_MONTH: _("This month"),
    LAST_MONTH: _("Last month"),
}
DEFAULT_PRESET = "24h"
# A form sends it; a page answers with the address that means the same without it.
SHOWN = "shown"
# The parameters of the address of a report.
PARAMETERS = (
    *("source", "by", "only", "flow", "period", "from", "to", "zone", "sort", "columns"),
    *(SHOWN, "of"),
)
ALL_COLUMNS = "all"
# Longer periods are drawn by day.
MAX_BY_HOUR = timedelta(days=8)
MAX_TEXT = 200
_YEARS = range(2000, 2201)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The wishes of an address. `preset` is empty for a custom period; `problems` are sentences
    about values of the address that were not used."""

    zone: ZoneInfo
    preset: str
    start: datetime
    end: datetime
    sort: str
    problems: tuple[str, ...] = ()

    @property
    def times(self) -> dict[str, str]:
        """The parameters of the period."""
        if self.preset:
            return {"period": self.preset}
        return {"from": stamp(self.start), "to": stamp(self.end)}

    @property
    def inputs(self) -> dict[str, Any]:
        """The values of a form with the two inputs `from` and `to`, and the hidden fields that it
        `keeps`: these two values, and the period that is meant while nobody types another."""
        first, last = (
            # The value of an <input type="datetime-local">.
            at.astimezone(self.zone).strftime("%Y-%m-%dT%H:%M:%S")
            for at in (self.start, self.end)
        )
        meant = self.times if self.preset else {"of": "/".join(self.times.values())}
        return {"from": first, "to": last, "keeps": {SHOWN: f"{first}/{last}", **meant}}

    def parameters(self, **changes: Any) -> dict[str, str]:
        """The parameters of the address with some changes."""
        raise NotImplementedError

    def query(self, **changes: Any) -> str:
        """The query string with some changes."""
        return f"?{urlencode(self.parameters(**changes))}"


@dataclass(frozen=True, kw_only=True)
class Choice(Asked):
    """A report. Minutes are stored since `minutes_from`; `columns` is ALL_COLUMNS or empty."""

    source: str
    by: str
    only: tuple[str, str] | None
    minutes_from: datetime
    columns: str = ""
    # The flow whose steps they are, "" for all.
    flow: str = ""

    @property
    def period(self) -> Period:
        return Period(self.start, self.end, self.zone)

    def before(self, as_of: datetime) -> Period:
        """The period before this one, of equal length; as long as the part up to `as_of` while this
        one is not over."""
        start = self.start - (self.end - self.start)
        gone = min(as_of, self.end) - self.start
        return Period(start, start + gone if gone > timedelta() else self.start, self.zone)

    @property
    def time_step(self) -> str:
        """The steps of the charts: minutes, hours or days."""
        if self.by in THROUGH_TIME:
            return self.by
        if self.has_minutes:
            return MINUTE
        return HOUR if self.end - self.start <= MAX_BY_HOUR else DAY

    @property
    def is_by_group(self) -> bool:
        return self.by not in THROUGH_TIME

    @property
    def has_minutes(self) -> bool:
        """Whether the report is available by minute; the minutes of a preset are always stored."""
        if self.preset:
            return self.preset in PRESETS and PRESETS[self.preset][0] <= LONGEST_BY_MINUTE
        return self.end - self.start <= LONGEST_BY_MINUTE and self.start >= self.minutes_from

    def parameters(self, **changes: Any) -> dict[str, str]:
        to = replace(self, **changes)
        if to.by == MINUTE and not to.has_minutes:
            to = replace(to, by=HOUR)
        return {
            "source": to.source,
            "by": to.by,
            **({"only": ":".join(to.only)} if to.only else {}),
            **({"flow": to.flow} if to.flow and to.source == STEP else {}),
            **to.times,
            "zone": to.zone.key,
            **({"sort": to.sort} if to.sort else {}),
            **({"columns": to.columns} if to.columns else {}),
        }


def stamp(instant: datetime) -> str:
    """The instant as addresses name it: `2026-03-31T09:30Z`, with seconds if it has any."""
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='seconds' if utc.second else 'minutes')}Z"


def read_choice(
    query: QueryDict,
    now: datetime,
    *,
    groups: Mapping[str, Sequence[str]],
    sorts: Sequence[str],
    minutes_from: datetime,
    source: str = JOB,
) -> Choice:
    """The report of the query. A bad value is replaced by its default and reported as a problem.

    `groups` are the groupings of each source, `sorts` the columns to sort by, `source` is the usual
    one.
    """
    reader = Reader(query)
    source = reader.one_of("source", groups, source)
    by = reader.one_of("by", (*groups[source], *THROUGH_TIME), groups[source][0])
    zone = reader.zone()
    period = reader.period(now, zone)
    sort = reader.one_of("sort", ["", *sorts, *(f"-{name}" for name in sorts)], "")
    only = reader.only(groups[source], by)
    columns = reader.one_of("columns", (ALL_COLUMNS,), "")
    flow = reader.flow() if source == STEP else ""
    choice = Choice(
        source=source,
        by=by,
        **period,
        only=only,
        sort=sort,
        minutes_from=minutes_from,
        columns=columns,
        flow=flow,
        problems=tuple(reader.problems),
    )
    if by != MINUTE or choice.has_minutes:
        return choice
    problem = gettext(
        "Minutes are available for recent periods of at most %(hours)d hours; shown by hour."
    ) % {"hours": LONGEST_BY_MINUTE // timedelta(hours=1)}
    return replace(choice, by=HOUR, problems=(*choice.problems, problem))


class Reader:
    """Reads the values of an address; a bad one gives the default and a problem."""

    def __init__(self, query: QueryDict) -> None:
        self.query = query
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()[:MAX_TEXT].replace("\0", "")

    def one_of(self, name: str, known: Any, default: str) -> str:
        text = self.text(name)
        if not text or text in known:
            return text or default
        self.problems.append(
            gettext("%(name)s=%(text)s is none of %(known)s.")
            % {"name": name, "text": text[:60], "known": ", ".join(each for each in known if each)}
        )
        return default

    def zone(self) -> ZoneInfo:
        text = self.text("zone")
        default = parse_zone(get_current_timezone_name())
        if not text:
            return default
        try:
            return parse_zone(text)
        except Invalid:
            self.problems.append(
                gettext("There is no time zone %(text)s; write for example Asia/Shanghai or UTC.")
                % {"text": text[:60]}
            )
            return default

    def only(self, groups: Sequence[str], by: str) -> tuple[str, str] | None:
        text = self.text("only")
        if not text:
            return None
        dimension, _colon, value = text.partition(":")
        if dimension not in groups or read_key(value) is None:
            self.problems.append(
                gettext("only=%(text)s names no group; write for example only=%(group)s:NAME.")
                % {"text": text[:60], "group": groups[0]}
            )
            return None
        if by not in THROUGH_TIME:
            self.problems.append(
                gettext("A single group is shown through time only; shown are all groups.")
            )
            return None
        return dimension, value

    def flow(self) -> str:
        text = self.text("flow")
        if read_key(text) is not None:
            return text
        self.problems.append(gettext("There is no flow %s.") % repr(text[:60]))
        return ""

    def period(self, now: datetime, zone: ZoneInfo) -> dict[str, Any]:
        """The zone, the preset and the instants of `Asked`."""
        preset = self.one_of("period", PRESET_TITLES, DEFAULT_PRESET)
        typed = self.text("from"), self.text("to")
        if self.query.get(SHOWN) and _are_same(typed, self.text(SHOWN).split("/")):
            meant_start, _slash, meant_end = self.text("of").partition("/")
            typed = meant_start, meant_end
        instants = None
        if any(typed):
            try:
                preset, instants = "", self._custom(typed, now, zone)
            except ValueError as error:
                self.problems.append(str(error))
        start, end = instants or _of_preset(preset, now, zone)
        return {"zone": zone, "preset": preset, "start": start, "end": end}

    @staticmethod
    def _custom(typed: tuple[str, str], now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
        start_text, end_text = typed
        end = _instant(end_text, zone) if end_text else _full_minute(now)
        start = _instant(start_text, zone) if start_text else end - PRESETS[DEFAULT_PRESET][0]
        if start >= end:
            raise ValueError(gettext("The period ends before it begins; swap the two times."))
        if end - start > LONGEST:
            raise ValueError(
                gettext("A report is of %d days at most; choose a shorter period.") % LONGEST.days
            )
        return start, end


def _of_preset(preset: str, now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    if preset in PRESETS:
        return _latest(now, PRESETS[preset][0])
    this = start_of_day(now.astimezone(zone), day=1)
    if preset == LAST_MONTH:
        last = start_of_day(this - timedelta(days=1), day=1)
        return last.astimezone(UTC), this.astimezone(UTC)
    # Its first hour has begun, however early it is.
    hour = timedelta(hours=1)
    return this.astimezone(UTC), max(_latest(now, LONGEST)[1], this.astimezone(UTC) + hour)


def _latest(now: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """The period up to now, in steps that are still stored for the period before it."""
    grain = timedelta(minutes=1)
    if length > timedelta(hours=1):
        grain = timedelta(minutes=15) if length <= timedelta(days=7) else timedelta(hours=1)
    end = now + (datetime.min.replace(tzinfo=UTC) - now) % grain
    return end - length, end


def _are_same(texts: Sequence[str], others: Sequence[str]) -> bool:
    """Whether these are the same times; browsers leave out seconds that are zero."""
    try:
        return [datetime.fromisoformat(text) for text in texts] == [
            datetime.fromisoformat(text) for text in others
        ]
    except ValueError:
        return False


def _full_minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


def _instant(text: str, zone: ZoneInfo) -> datetime:
    """The instant of a time with an offset, or of a local time in the zone."""
    try:
        instant = read_instant(text, zone)
    except Invalid as error:
        raise ValueError(translate(error.detail)) from error
    if instant.year not in _YEARS:
        raise ValueError(
            gettext("%(text)s is not a time; write for example 2026-03-31T09:30.")
            % {"text": text[:40]}
        )
    return instant
