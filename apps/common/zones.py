"""Time zones, and the local time that a wall clock shows.

An instant is counted in seconds since 1970-01-01 00:00 UTC. A *wall* is what the clock shows,
counted in seconds since the wall showed 1970-01-01 00:00, so `wall // DAY` is the local date and
`wall - instant` the offset. Going forward the offset jumps up at a gap, where walls are left out,
and down at a fold, where walls are shown twice.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from apps.common.errors import Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _

# Offsets are smaller than this, and no zone has ever changed its offset twice within it.
DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Later times cannot be shown in every zone; only SQL writes some.
_LAST = datetime(9999, 1, 1, tzinfo=UTC)

# Names for "not set" of the system and of the tz database.
_NOT_PLACES = {"localtime", "Factory"}
_NEAREST = 3
_ANY = _("write a name of the IANA list, for example Asia/Shanghai or UTC.")
_OFFSET = re.compile(r"(?:utc|gmt|z)?_?([+-])_?([0-9]{1,2})(?::?([0-5][0-9]))?")
_SIGN = re.compile(r"[+-][0-9]")
# One for each offset that many people live by, the best known one.
_PLACES = (
    *("Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Denver"),
    *("America/Chicago", "America/New_York", "America/Halifax", "America/St_Johns"),
    *("America/Sao_Paulo", "Europe/London", "Europe/Berlin", "Africa/Cairo", "Europe/Moscow"),
    *("Asia/Tehran", "Asia/Dubai", "Asia/Kabul", "Asia/Karachi", "Asia/Kolkata"),
    *("Asia/Kathmandu", "Asia/Dhaka", "Asia/Yangon", "Asia/Bangkok", "Asia/Shanghai"),
    *("Asia/Tokyo", "Australia/Adelaide", "Australia/Sydney", "Pacific/Auckland"),
)
# Names that people use for zones, which the list names otherwise.
_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("beijing", "peking", "china", "guangzhou", "shenzhen", "china_standard_time"),
        ("Asia/Shanghai",),
    ),
    **dict.fromkeys(("北京", "北京时间", "上海", "中国"), ("Asia/Shanghai",)),
    **dict.fromkeys(("india", "delhi", "new_delhi", "mumbai", "bangalore"), ("Asia/Kolkata",)),
    **dict.fromkeys(("germany", "munich", "frankfurt", "hamburg"), ("Europe/Berlin",)),
    **dict.fromkeys(("washington", "boston", "miami", "edt"), ("America/New_York",)),
    **dict.fromkeys(("san_francisco", "seattle", "pst", "pdt"), ("America/Los_Angeles",)),
    "cst": ("Asia/Shanghai", "America/Chicago"),
    "cdt": ("America/Chicago",),
    "mdt": ("America/Denver",),
    "brt": ("America/Sao_Paulo",),
    "bst": ("Europe/London", "Asia/Dhaka"),
    "ist": ("Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"),
    "cest": ("Europe/Berlin",),
    "eest": ("Europe/Athens",),
    "msk": ("Europe/Moscow",),
    "pkt": ("Asia/Karachi",),
    "ict": ("Asia/Bangkok",),
    "wib": ("Asia/Jakarta",),
    "hkt": ("Asia/Hong_Kong",),
    "sgt": ("Asia/Singapore",),
    **dict.fromkeys(("jst", "osaka"), ("Asia/Tokyo",)),
    "kst": ("Asia/Seoul",),
    "awst": ("Australia/Perth",),
    **dict.fromkeys(("aest", "aedt"), ("Australia/Sydney",)),
    **dict.fromkeys(("nzst", "nzdt"), ("Pacific/Auckland",)),
}


def later(at: datetime, by: timedelta) -> datetime:
    """The instant so much later. One past the last instant that every zone can show counts as that,
    so that nothing leaves the calendar."""
    return min(at, _LAST) + by


def parse_zone(name: Any, *, field: str = "time_zone") -> ZoneInfo:
    """The zone of that IANA name; Invalid with the names that may be meant when there is none."""
    if not isinstance(name, str):
        raise Invalid.field(
            field,
            _(
                "{this} is not the name of a time zone; write for example Asia/Shanghai.",
                this=f"{name!r:.60}",
            ),
        )
    if name not in zone_names():
        message = _("There is no time zone {name}; {hint}", name=f"{name!r:.60}", hint=_hint(name))
        raise Invalid.field(field, message)
    return ZoneInfo(name)


def known_zone(name: str) -> ZoneInfo:
    """The zone of a stored name; UTC for one that the tz database of this machine has lost."""
    return ZoneInfo(name if name in zone_names() else "UTC")


@cache
def zone_names() -> frozenset[str]:
    """All names of time zones that are places, or UTC and the like."""
    return frozenset(available_timezones() - _NOT_PLACES)


def _hint(name: str) -> Message:
    """People write what they mean: an offset, an abbreviation, a city; or they misspell a name."""
    wanted = name[:64].lower().replace(" ", "_")
    if offset := _OFFSET.fullmatch(wanted):
        return _hint_of(*offset.groups())
    known = {full.lower(): full for full in sorted(zone_names())}
    cities = [full for low, full in known.items() if wanted in (low, low.rpartition("/")[2])]
    near = list(cities or _MEANT.get(wanted, ()))
    if not near:
        # The signs of others mean something, which a likeness does not.
        alike = [low for low in known if not _SIGN.search(low)]
        near = [known[low] for low in difflib.get_close_matches(wanted, alike, _NEAREST)]
    if not near:
        return _ANY
    return _("did you mean {names}?", names=_either(near[:_NEAREST]))


def _hint_of(sign: str, hours: str, minutes: str | None) -> Message:
    """The zones with that offset from UTC, east of which it is positive."""
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0)) * (1 if sign == "+" else -1)
    new_year = datetime(2026, 1, 1, 12)
    shown = [(name, new_year.replace(tzinfo=ZoneInfo(name))) for name in _PLACES]
    near = [
        name
        for name, local in shown
        if (local.utcoffset() or timedelta()) - (local.dst() or timedelta()) == offset
    ]
    # The names of the list have the sign of POSIX, where west is positive.
    fixed = f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}"
    near += [fixed] if not int(minutes or 0) and fixed in zone_names() else []
    if not near:
        return _ANY
    if not offset:
        return _("did you mean {names}?", names="UTC")
    text = offset_name(datetime.min.replace(tzinfo=timezone(offset)))
    return _("{offset} is {names}.", offset=text, names=_either(near))


def _either(names: Sequence[str]) -> str | Message:
    found, *rest = names
    for name in rest:
        found = _("{items} or {last}", items=found, last=name)
    return found


def offset_name(local: datetime) -> str:
    """`UTC`, `UTC+8`, `UTC-3:30`: how far the clock that shows this local time is from UTC."""
    offset = local.utcoffset() or timedelta()
    if not offset:
        return "UTC"
    hours, rest = divmod(abs(offset), timedelta(hours=1))
    minutes = rest // timedelta(minutes=1)
    sign = "-" if offset < timedelta() else "+"
    return f"UTC{sign}{hours}:{minutes:02}" if minutes else f"UTC{sign}{hours}"


def wall_at(zone: tzinfo, instant: int) -> int:
    """The wall at an instant."""
    return _whole(datetime.fromtimestamp(instant, zone).replace(tzinfo=UTC) - EPOCH)


def first_pass(zone: tzinfo, wall: int) -> int | None:
    """The first instant at which the clock shows that wall, or a later one when a gap skips it.

    None when the gap skips the whole local date: that date has no instant.
    """
    shown = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=zone)
    by_old_offset, by_new_offset = shown - EPOCH, shown.replace(fold=1) - EPOCH
    if by_old_offset <= by_new_offset:
        return _whole(by_old_offset)
    jump = _change(zone, _whole(by_new_offset), _whole(by_old_offset))
    midnight = wall - wall % DAY
    skips_date = wall_at(zone, jump - 1) < midnight and wall_at(zone, jump) >= midnight + DAY
    return None if skips_date else jump


def first_instant(zone: tzinfo, local: datetime) -> datetime:
    """The first instant at which the clock shows this local time; Invalid with the next one that it
    shows when it skips this one."""
    if not MINYEAR < local.year < MAXYEAR:
        # Some zones would leave the calendar, and rules refuse it in any.
        return local.replace(tzinfo=UTC)
    wall = _whole(local.replace(tzinfo=UTC, microsecond=0) - EPOCH)
    passed, later = first_pass(zone, wall), wall
    while passed is None:
        # A whole date is skipped.
        later = later - later % DAY + DAY
        passed = first_pass(zone, later)
    if wall_at(zone, passed) == wall:
        return EPOCH + timedelta(seconds=passed, microseconds=local.microsecond)
    following = datetime.fromtimestamp(passed, zone)
    raise Invalid(
        _(
            "Clocks in {zone} skip {time}; write {next} or later.",
            zone=str(zone),
            time=f"{local:%Y-%m-%d %H:%M:%S}",
            next=f"{following:%Y-%m-%d %H:%M:%S}",
        )
    )


def start_of_day(local: datetime, *, day: int | None = None) -> datetime:
    """The midnight with which the local date of the instant began, or that day of its month.

    Where clocks are put back over midnight it occurs twice, and the date begins with the first one.
    """
    day = local.day if day is None else day
    return local.replace(day=day, hour=0, minute=0, second=0, microsecond=0, fold=0)


def first_passes(
    zone: ZoneInfo,
    walls: Callable[[int, int], Iterable[int]],
    low: int,
    high: int,
) -> Iterator[int]:
    """The instants in [low, high) at which the clock shows these walls, each once, in their order.

    `walls(first, end)` gives those in [first, end), ascending or descending. Walls that one gap
    skips share an instant.
    """
    last = None
    for wall in walls(wall_at(zone, low - 1) + 1, _highest_wall(zone, high - 1) + 1):
        instant = first_pass(zone, wall)
        if instant is not None and instant != last and low <= instant < high:
            last = instant
            yield instant


def steady(zone: ZoneInfo, low: int, high: int, *, reverse: bool) -> tuple[int, int]:
    """A part [start, end) of [low, high) in which the offset stays: the first, or the last one.

    It is at most a day long, and never empty.
    """
    if reverse:
        start, end = max(low, high - DAY), high
    else:
        start, end = low, min(high, low + DAY)
    if _offset(zone, start) == _offset(zone, end - 1):
        return start, end
    jump = _change(zone, start, end - 1)
    return (jump, end) if reverse else (start, jump)


def _highest_wall(zone: ZoneInfo, instant: int) -> int:
    """An upper bound of the walls shown up to an instant; too high in a fold's second pass."""
    moment = datetime.fromtimestamp(instant, zone)
    seconds_since_first_pass = instant - _whole(moment.replace(fold=0) - EPOCH)
    return wall_at(zone, instant) + seconds_since_first_pass


def _change(zone: tzinfo, low: int, high: int) -> int:
    """The instant of (low, high] from which on the offset is that at `high`."""
    offset = _offset(zone, high)
    return low + bisect_left(
        range(low, high), True, key=lambda instant: _offset(zone, instant) == offset
    )


def _offset(zone: tzinfo, instant: int) -> int:
    return wall_at(zone, instant) - instant


def _whole(seconds: timedelta) -> int:
    # Several times faster than dividing by a second.
    return seconds.days * DAY + seconds.seconds
