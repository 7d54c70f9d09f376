"""S0.11, I21: time zones by name, and local times where clocks are changed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from apps.common.errors import Invalid
from apps.common.zones import _MEANT, _PLACES, first_instant, parse_zone, zone_names
from apps.dispatch.rules.recurrence import Recurrence, parse_rule


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
        ("asia/shanghai", "did you mean Asia/Shanghai?"),
        ("Shanghai", "did you mean Asia/Shanghai?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe/Kyiw", "did you mean Europe/Kyiv or"),
        ("GMT+25", "write a name of the IANA list"),
        ("UTC+3:17", "write a name of the IANA list"),
        ("zzz", "write a name of the IANA list, for example Asia/Shanghai or UTC."),
        ("", "write a name of the IANA list"),
        ("x" * 100_000, "write a name of the IANA list"),
        # What a file system or the C library would take for one.
        ("America", "did you mean"),
        ("localtime", "There is no time zone 'localtime'"),
        ("Factory", "There is no time zone 'Factory'"),
        ("posixrules", "There is no time zone"),
        ("right/UTC", "There is no time zone"),
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


# Each with the local time it shows, worked out by hand from the rules of the zone.
def test_local_time_comes_once_on_each_date(subtests: pytest.Subtests) -> None:
    """I21: in a gap at the first valid moment after it, in a fold at the first pass."""
    for zone, at, first_date, expected in (
        # 02:00 becomes 03:00.
        ("America/New_York", "02:30", "2026-03-07", ["07 07:30", "08 07:00", "09 06:30"]),
        ("America/New_York", "02:00", "2026-03-07", ["07 07:00", "08 07:00", "09 06:00"]),
        ("America/New_York", "03:00", "2026-03-07", ["07 08:00", "08 07:00", "09 07:00"]),
        # 02:00 becomes 01:00.
        ("America/New_York", "01:30", "2026-10-31", ["31 05:30", "01 05:30", "02 06:30"]),
        ("America/New_York", "02:00", "2026-10-31", ["31 06:00", "01 07:00", "02 07:00"]),
        # Half an hour: 02:00 becomes 02:30, and 02:00 becomes 01:30.
        ("Australia/Lord_Howe", "02:15", "2026-10-03", ["02 15:45", "03 15:30", "04 15:15"]),
        ("Australia/Lord_Howe", "01:45", "2026-04-04", ["03 14:45", "04 14:45", "05 15:15"]),
        # Two hours: 01:00 becomes 03:00.
        ("Antarctica/Troll", "01:30", "2026-03-28", ["28 01:30", "29 01:00", "29 23:30"]),
        # 30 December was left out.
        ("Pacific/Apia", "09:30", "2011-12-29", ["29 19:30", "30 19:30", "31 19:30"]),
        ("Pacific/Apia", "00:00", "2011-12-29", ["29 10:00", "30 10:00", "31 10:00"]),
        # 21 August was left out.
        ("Pacific/Kwajalein", "12:00", "1993-08-20", ["21 00:00", "22 00:00", "23 00:00"]),
        # Midnight becomes 01:00, and midnight becomes 23:00 of the day before.
        ("Africa/Cairo", "00:00", "2026-04-23", ["22 22:00", "23 22:00", "24 21:00"]),
        ("Africa/Cairo", "23:30", "2026-10-28", ["28 20:30", "29 20:30", "30 21:30"]),
        # A quarter of an hour, at midnight.
        ("Asia/Kathmandu", "00:05", "1985-12-31", ["30 18:35", "31 18:30", "01 18:20"]),
        # 23:00 becomes midnight: the first valid moment is on the next date.
        ("America/Nuuk", "23:30", "2024-03-29", ["30 01:30", "31 01:00", "01 00:30"]),
        # 00:01 becomes 23:01 of the day before.
        ("America/St_Johns", "00:00:30", "2010-11-06", ["06 02:30", "07 02:30", "08 03:30"]),
        ("America/St_Johns", "23:30", "2010-11-05", ["06 02:00", "07 02:00", "08 03:00"]),
        # Three hours back: 02:00 becomes 23:00 of the day before.
        ("Antarctica/Casey", "23:30", "2010-03-03", ["03 12:30", "04 12:30", "05 15:30"]),
    ):
        with subtests.test(zone=zone, at=at, first_date=first_date):
            start = datetime.fromisoformat(first_date).replace(tzinfo=ZoneInfo(zone))
            plan = Recurrence(
                rule=parse_rule({"every_days": 1, "at": at}), zone=parse_zone(zone), start_at=start
            )
            found = list(islice(plan.after(datetime(1970, 1, 1, tzinfo=UTC)), len(expected)))
            assert [f"{instant:%d %H:%M}" for instant in found] == expected
            assert list(plan.before(found[-1])) == found[::-1]


def test_first_valid_moment_is_exact_to_the_second() -> None:
    """I21: Liberia went from 44:30 behind to none at midnight, to 00:44:30."""
    plan = Recurrence(
        rule=parse_rule({"every_days": 1, "at": "00:20"}),
        zone=parse_zone("Africa/Monrovia"),
        start_at=datetime(1972, 1, 6, 12, tzinfo=UTC),
    )

    found = list(islice(plan.after(plan.start_at), 2))

    assert found == [
        datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC),
        datetime(1972, 1, 8, 0, 20, tzinfo=UTC),
    ]


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
