from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.reports.rules.buckets import Bucket, days, hours, minutes

ZONES = sorted(available_timezones() - {"localtime", "Factory"})


def local(text: str, zone: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def lengths(buckets: list[Bucket]) -> list[int]:
    return [round((bucket.end - bucket.start) / timedelta(minutes=1)) for bucket in buckets]


def test_local_days_are_as_long_as_they_are(subtests: pytest.Subtests) -> None:
    for zone, day, length in (
        ("Asia/Shanghai", "2026-03-29", 24 * 60),
        ("Europe/Berlin", "2026-03-29", 23 * 60),
        ("Europe/Berlin", "2026-10-25", 25 * 60),
        ("Australia/Lord_Howe", "2026-04-05", 24 * 60 + 30),
        ("Australia/Lord_Howe", "2026-10-04", 24 * 60 - 30),
        ("Africa/Cairo", "2026-04-24", 23 * 60),  # put forward at midnight
        ("America/Havana", "2026-11-01", 25 * 60),  # put back at one, to midnight
        ("Asia/Kathmandu", "2026-06-01", 24 * 60),
    ):
        with subtests.test(zone=zone, day=day):
            here = ZoneInfo(zone)
            before, after = (date.fromisoformat(day) + timedelta(days=d) for d in (-1, 2))
            found = days(local(f"{before}T12:00", zone), local(f"{after}T12:00", zone), here)
            buckets = {bucket.label: bucket for bucket in found}
            assert lengths([buckets[day]]) == [length]


def test_hour_that_is_put_back_comes_twice() -> None:
    zone = "Europe/Berlin"
    buckets = list(
        hours(local("2026-10-25T01:30", zone), local("2026-10-25T04:00", zone), ZoneInfo(zone))
    )
    assert [bucket.label for bucket in buckets] == [
        "2026-10-25T01:00+02:00",
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
    ]
    assert lengths(buckets) == [30, 60, 60, 60]


@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1)),
    st.integers(1, 60 * 24 * 40),
)
def test_buckets_part_the_period_without_gap(zone: str, start: datetime, minutes: int) -> None:
    here = ZoneInfo(zone)
    begin = start.replace(tzinfo=UTC)
    end = begin + timedelta(minutes=minutes)
    for kind, longest in ((hours, 90), (days, 25 * 60)):
        buckets = list(kind(begin, end, here))
        assert buckets[0].start == begin and buckets[-1].end == end
        assert all(one.end == two.start for one, two in pairwise(buckets))
        assert all(0 < length <= longest for length in lengths(buckets[1:-1]))
        assert len({bucket.label for bucket in buckets}) == len(buckets)
    for bucket in days(begin, end, here):
        shown = {
            at.astimezone(here).date().isoformat()
            for at in (bucket.start, bucket.end - timedelta(microseconds=1))
        }
        assert shown == {bucket.label}


def test_minutes_are_named_as_clocks_show_them_and_cut_at_the_edges() -> None:
    start = datetime(2026, 3, 1, 23, 58, 30, tzinfo=UTC)
    found = list(minutes(start, start + timedelta(seconds=150), ZoneInfo("Asia/Kathmandu")))
    assert [bucket.label[11:] for bucket in found] == ["05:43+05:45", "05:44+05:45", "05:45+05:45"]
    assert found[0].start == start
    assert all(before.end == after.start for before, after in pairwise(found))
    assert [(each.end - each.start).seconds for each in found] == [30, 60, 60]
