"""S0.11, I21: time zones by name, and local times where clocks are changed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.common.errors import Invalid
from apps.common.zones import (
    _MEANT,
    _PLACES,
    first_instant,
    parse_zone,
    start_of_day,
    zone_names,
)


def test_zone_is_found_by_its_name() -> None:
    assert parse_zone("Asia/Shanghai") == ZoneInfo("Asia/Shanghai")
    assert parse_zone("UTC") == ZoneInfo("UTC")


def test_advice_is_by_what_a_name_means(subtests: pytest.Subtests) -> None:
    """Every zone that is named for an offset shows it; none is named because it looks alike."""
    for name, offset in (
        ("GMT+8", 8),
        ("utc +08:00", 8),
        ("+0800", 8),
        ("UTC-5", -5),
        ("GMT-03:30", -3.5),
        ("UTC+5:45", 5.75),
        ("+14", 14),
        ("gmt+0", 0),
    ):
        with subtests.test(name=name):
            detail = advice(name)
            named = re.findall(
                r"(?:[A-Z][a-z]+/[A-Za-z_]+|Etc/GMT)(?:[+-][0-9]+)?|UTC(?=[?])", detail
            )
            assert named
            for zone in named:
                local = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))
                away = (local.utcoffset() or timedelta()) - (local.dst() or timedelta())
                assert away == timedelta(hours=offset), zone
    assert "UTC+8 is Asia/Shanghai or Etc/GMT-8." in advice("GMT+8")


def test_common_names_mean_zones_of_the_list(subtests: pytest.Subtests) -> None:
    for name, zones in _MEANT.items():
        with subtests.test(name=name):
            assert {*zones} <= zone_names()
            assert zones[0] in advice(name.upper().replace("_", " "))
    assert {*_PLACES} <= zone_names()


def advice(name: str) -> str:
    with pytest.raises(Invalid) as refusal:
        parse_zone(name)
    return str(refusal.value)


def test_unknown_zone_is_refused_with_the_nearest_names(subtests: pytest.Subtests) -> None:
    for name, hint in (
        ("Asia/Shangai", "did you mean Asia/Shanghai"),
        ("Shanghai", "did you mean Asia/Shanghai?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Kyiw", "did you mean Europe/Kyiv or"),
        ("GMT+25", "write a name of the IANA list"),
        ("zzz", "write a name of the IANA list, for example Asia/Shanghai or UTC."),
        ("", "write a name of the IANA list"),
        ("x" * 100_000, "write a name of the IANA list"),
        # What a file system or the C library would take for one.
        ("America", "did you mean"),
        ("localtime", "There is no time zone 'localtime'"),
        ("../zoneinfo/UTC", "There is no time zone"),
        ("/usr/share/zoneinfo/UTC", "There is no time zone"),
        ("UTC\x00", "There is no time zone"),
        ("\ud800", "There is no time zone"),
        (None, "None is not the name of a time zone"),
        (8, "8 is not the name of a time zone"),
    ):
        with subtests.test(name=name):
            with pytest.raises(Invalid) as refusal:
                parse_zone(name)
            assert [error.field for error in refusal.value.errors] == ["time_zone"]
            assert hint in str(refusal.value)
            assert len(str(refusal.value)) < 200


def test_typed_time_is_the_first_instant_at_which_clocks_show_it(subtests: pytest.Subtests) -> None:
    for zone, local, instant in (
        ("UTC", "2026-03-02 09:00:00", "2026-03-02 09:00:00"),
        ("Asia/Shanghai", "2026-03-02 09:00:00.25", "2026-03-02 01:00:00.25"),
        # Shown twice: the first time counts.
        ("Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25 00:30:00"),
        ("Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25 02:00:00"),
        ("Asia/Shanghai", "9999-12-31 23:59:59", "9999-12-31 23:59:59"),
    ):
        with subtests.test(zone=zone, local=local):
            shown = first_instant(ZoneInfo(zone), datetime.fromisoformat(local))
            assert shown == datetime.fromisoformat(instant).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "local", "following"),
    [
        ("Europe/Berlin", "2027-03-28 02:30:00", "2027-03-28 03:00:00"),
        # A whole date, when an island moved to the other side of the date line.
        ("Pacific/Apia", "2011-12-30 09:00:00", "2011-12-31 00:00:00"),
    ],
)
def test_typed_time_that_clocks_skip_is_refused_with_the_next_one(
    zone: str, local: str, following: str
) -> None:
    with pytest.raises(Invalid, match=f"skip {local}; write {following} or later"):
        first_instant(ZoneInfo(zone), datetime.fromisoformat(local))


def test_day_begins_with_its_first_midnight(subtests: pytest.Subtests) -> None:
    """In Havana and on the Azores clocks are put back over midnight: in the hour after that the day
    began an hour late."""
    quarter = timedelta(minutes=15)
    for name in (
        *("America/Havana", "Atlantic/Azores", "Africa/Cairo", "Asia/Beirut", "America/Santiago"),
        *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"),
    ):
        zone = ZoneInfo(name)
        # All changes of a year, its end and 29 February are in it.
        at = datetime(2028, 1, 1, 12, tzinfo=UTC)
        with subtests.test(zone=name):
            today = at.astimezone(zone).date()
            begins = start_of_day(at.astimezone(zone)).astimezone(UTC)
            while at.year < 2029:
                local = at.astimezone(zone)
                if local.date() > today:
                    today, begins = local.date(), at
                assert start_of_day(local).astimezone(UTC) == begins, local
                at += quarter
