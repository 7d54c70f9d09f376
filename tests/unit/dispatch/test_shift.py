"""Shifts as operators write them, and whether they change anything: S0.32."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, product
from zoneinfo import ZoneInfo

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules.recurrence import Recurrence, parse_rule
from apps.dispatch.rules.shift import is_moved, parse_shift, shifted, written_shift

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_shift_is_read(subtests: pytest.Subtests) -> None:
    for text, shift in (
        ("+2h", timedelta(hours=2)),
        ("-30m", timedelta(minutes=-30)),
        ("90s", timedelta(seconds=90)),
        ("+1d12h", timedelta(hours=36)),
        (" - 1 W ", timedelta(days=-7)),
        ("+366d", timedelta(days=366)),
        ("-1s", timedelta(seconds=-1)),
    ):
        with subtests.test(text=text):
            assert parse_shift(text) == shift


def test_what_is_no_shift_is_refused_with_an_example(subtests: pytest.Subtests) -> None:
    for text in ("", "2", "h", "+-2h", "2h+30m", "1.5h", "2 hours", "٢h", "+2h\0"):
        with subtests.test(text=text):
            with pytest.raises(Invalid, match=r"is not a shift; write for example \+2h"):
                parse_shift(text)


def test_shift_of_nothing_or_of_years_is_refused(subtests: pytest.Subtests) -> None:
    for text in ("0s", "-0d0h", "366d1s", "-999999999w"):
        with subtests.test(text=text):
            with pytest.raises(Invalid, match="shift by one second to 366 days"):
                parse_shift(text)


def test_series_is_moved_when_it_is_due_at_other_times(subtests: pytest.Subtests) -> None:
    for days, ends, by, rule in product(
        (-10, 5),
        (None, 7, 40),
        (timedelta(minutes=45), timedelta(days=1), timedelta(days=-3)),
        (
            {"every_minutes": 30},
            {"every_minutes": 45},
            {"every_days": 1, "at": "09:30"},
            {"every_days": 3, "at": "00:10"},
            {"cron": "0 9 * * 1-5"},
        ),
    ):
        with subtests.test(days=days, ends=ends, by=by, rule=rule):
            start = NOW + timedelta(days=days)
            end = None if ends is None else start + timedelta(days=ends)
            series = Recurrence(
                rule=parse_rule(rule), zone=ZoneInfo("Asia/Shanghai"), start_at=start, end_at=end
            )
            start_at, end_at = shifted(start, end, by)
            moved = Recurrence(rule=series.rule, zone=series.zone, start_at=start_at, end_at=end_at)
            before, after = (list(islice(each.after(NOW), 2_000)) for each in (series, moved))
            # A start or an end ahead moves even where nothing is due between the old and the new.
            is_ahead = max(start, start_at) > NOW or (end_at is not None and max(end, end_at) > NOW)
            assert is_moved(series, by, NOW) == (before != after or is_ahead)


def test_shift_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(Invalid, match="beyond the calendar"):
        shifted(datetime(9998, 12, 31, tzinfo=UTC), None, timedelta(days=366))


def test_shift_is_written_as_it_is_read(subtests: pytest.Subtests) -> None:
    cases = {7200: "+2h", -1800: "-30m", 129_600: "+1d12h", 604_861: "+1w1m1s"}
    for seconds, text in cases.items():
        with subtests.test(seconds=seconds):
            assert written_shift(seconds) == text
            assert parse_shift(text) == timedelta(seconds=seconds)
