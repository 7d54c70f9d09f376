"""Whether a rule begins, fires, repeats or ends an alert."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from apps.alerts.rules.judge import Open, judge
from apps.alerts.rules.quiet import QuietHours
from apps.reports.rules.limits import NO_LIMIT, Limit

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
RATE = Limit(0.2, 120, highest=1.0)
QUOTA = Limit(0.8, rises=False, highest=1.0)
AGO = timedelta(minutes=10)
PENDING = Open(NOW - timedelta(seconds=119))
FIRING = Open(NOW - AGO, fired_at=NOW - AGO, notified_at=NOW - AGO)


def test_verdict(subtests: pytest.Subtests) -> None:
    for value, alert, verdict in (
        (0.19, None, "nothing"),
        (None, None, "nothing"),
        (0.2, None, "pending"),
        (0.2, PENDING, "keep"),
        (0.2, Open(NOW - timedelta(seconds=120)), "fire"),
        (0.19, PENDING, "forget"),
        (None, PENDING, "forget"),
        (0.2, FIRING, "keep"),
        # A firing alert ends below 90 % of the threshold.
        (0.181, FIRING, "keep"),
        (0.179, FIRING, "resolve"),
        (None, FIRING, "resolve"),
    ):
        with subtests.test(value=value, alert=alert):
            assert judge(RATE, value, alert, NOW) == verdict


@pytest.mark.parametrize(
    ("alert", "verdict"),
    [
        (None, "nothing"),
        (Open(NOW - AGO), "keep"),
        (FIRING, "keep"),
        (FIRING._replace(notified_at=None), "repeat"),
    ],
)
def test_while_too_little_is_known_it_stays_as_it_is(alert: Open | None, verdict: str) -> None:
    assert judge(RATE, None, alert, NOW, is_known=False) == verdict


def test_without_a_time_it_fires_at_once() -> None:
    assert judge(NO_LIMIT, 1.0, None, NOW) == "fire"


def test_quota_is_wrong_below_its_threshold(subtests: pytest.Subtests) -> None:
    for value, alert, verdict in (
        (0.8, None, "nothing"),
        (0.79, None, "fire"),
        (0.88, FIRING, "keep"),
        (0.89, FIRING, "resolve"),
    ):
        with subtests.test(value=value):
            assert judge(QUOTA, value, alert, NOW) == verdict


def test_whole_quota_resolves_whatever_the_threshold() -> None:
    assert judge(QUOTA._replace(threshold=1.0), 1.0, FIRING, NOW) == "resolve"


def test_firing_alert_is_told_again(subtests: pytest.Subtests) -> None:
    for repeat, alert, verdict in (
        (None, FIRING, "keep"),
        (11, FIRING, "keep"),
        (10, FIRING, "repeat"),
        # Nobody knows of it yet.
        (None, FIRING._replace(notified_at=None), "repeat"),
        (None, FIRING._replace(notified_at=None, snoozed_until=NOW + AGO), "keep"),
        (10, FIRING._replace(snoozed_until=NOW + timedelta(seconds=1)), "keep"),
        # Snoozed after people were notified, and the time is over.
        (None, FIRING._replace(snoozed_until=NOW), "repeat"),
        (None, FIRING._replace(snoozed_until=NOW, notified_at=NOW), "keep"),
    ):
        with subtests.test(repeat=repeat, alert=alert):
            assert judge(RATE, 0.5, alert, NOW, repeat_minutes=repeat) == verdict


def test_quiet_hours_over_midnight_belong_to_the_day_they_begin(subtests: pytest.Subtests) -> None:
    for at, is_quiet in (
        ("2026-03-02T21:59", False),
        ("2026-03-02T22:00", True),  # Monday evening
        ("2026-03-03T05:59", True),
        ("2026-03-03T06:00", False),
        ("2026-03-07T22:30", False),  # Saturday is no day of the rule
        ("2026-03-08T05:00", False),
        ("2026-03-07T05:00", True),  # of Friday evening
    ):
        with subtests.test(at=at):
            hours = QuietHours(time(22), time(6), "UTC", {1, 2, 3, 4, 5})
            assert hours.has(datetime.fromisoformat(f"{at}+00:00")) is is_quiet


def test_quiet_hours_are_those_of_their_zone() -> None:
    hours = QuietHours(time(12), time(13), "Asia/Shanghai", {*range(1, 8)})
    assert hours.has(datetime(2026, 3, 2, 4, 30, tzinfo=UTC))
    assert not hours.has(datetime(2026, 3, 2, 12, 30, tzinfo=UTC))


def test_equal_ends_are_the_whole_day() -> None:
    hours = QuietHours(time(8), time(8), "UTC", {1})
    assert hours.has(datetime(2026, 3, 2, 8, tzinfo=UTC))
    assert hours.has(datetime(2026, 3, 3, 7, 59, tzinfo=UTC))
    assert not hours.has(datetime(2026, 3, 3, 8, tzinfo=UTC))
    assert not hours.has(datetime(2026, 3, 2, 7, 59, tzinfo=UTC))
