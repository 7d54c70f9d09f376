"""S0.4: a rule in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given

from apps.dispatch.rules.recurrence import parse_rule
from apps.dispatch.rules.summary import summary
from tests.unit.dispatch.test_calendar import CRON


def test_interval_and_days_in_words(subtests: pytest.Subtests) -> None:
    for wire, words in (
        ({"every_minutes": 1}, "every minute"),
        ({"every_minutes": 30}, "every 30 minutes"),
        ({"every_minutes": 60}, "every hour"),
        ({"every_minutes": 90}, "every 90 minutes"),
        ({"every_minutes": 1440}, "every 24 hours"),
        ({"every_days": 1, "at": "09:30"}, "daily at 09:30, Asia/Shanghai"),
        ({"every_days": 2, "at": "09:30"}, "every 2 days at 09:30, Asia/Shanghai"),
        ({"every_days": 7, "at": "09:30:15"}, "every 7 days at 09:30:15, Asia/Shanghai"),
    ):
        with subtests.test(wire=wire):
            assert str(summary(parse_rule(wire), "Asia/Shanghai")) == words


def test_cron_in_words(subtests: pytest.Subtests) -> None:
    for expression, words in (
        ("0 9 * * *", "daily at 09:00"),
        ("0,30 9,17 * * *", "daily at 09:00, 09:30, 17:00 and 17:30"),
        ("0 9 * * 1-5", "Monday to Friday at 09:00"),
        ("0 9 * * 1", "every Monday at 09:00"),
        ("0 9 * * 6,7", "every Saturday and Sunday at 09:00"),
        ("0 9 * * MON-WED,FRI", "every Monday to Wednesday and Friday at 09:00"),
        ("0 9 * 3-5,12 1", "every Monday in March to May and December at 09:00"),
        ("0 9 * * 2#3", "the third Tuesday of the month at 09:00"),
        ("0 9 * 6 5L", "the last Friday of June at 09:00"),
        ("0 9 1 * *", "day 1 of the month at 09:00"),
        ("0 9 1,15,20-25 * *", "days 1, 15 and 20 to 25 of the month at 09:00"),
        ("0 9 L * *", "the last day of the month at 09:00"),
        ("0 9 LW * *", "the last working day of the month at 09:00"),
        ("0 9 13 * 5", "day 13 of the month or every Friday at 09:00"),
        ("0 9 * 3 *", "daily in March at 09:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * * * 6,7", "every 15 minutes, every Saturday and Sunday"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("*/15 8,12 * * *", "every 15 minutes of the hours 8 and 12"),
        ("5 * * * *", "every hour at minute 5"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("0 */2 * * *", "every 2 hours at minute 0"),
        ("0 */6 * * *", "daily at 00:00, 06:00, 12:00 and 18:00"),
        ("15,45 * * * *", "minutes 15 and 45 of every hour"),
        ("5 0-3,6,8,9 * * *", "minute 5 of the hours 0 to 3, 6, 8 and 9"),
        # 0, 7 … 56, and then 4 minutes: no even period, and too many to list.
        ("*/7 * * * *", "cron */7 * * * *"),
        ("0 9 */10 * 1", "cron 0 9 */10 * 1"),
        ("0 9 1,L * *", "cron 0 9 1,L * *"),
        ("0 9 * * 1,2#3", "cron 0 9 * * 1,2#3"),
    ):
        with subtests.test(expression=expression):
            assert str(summary(parse_rule({"cron": expression}), "UTC")) == f"{words}, UTC"


@given(CRON)
def test_every_cron_has_words_or_stands_for_itself(expression: str) -> None:
    words = str(summary(parse_rule({"cron": expression}), "UTC"))

    assert "{" not in words and words.endswith(", UTC")
