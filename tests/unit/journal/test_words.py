"""What the journal keeps, as people read it."""

from __future__ import annotations

import pytest
from django.utils import timezone, translation

from apps.journal.admin import words


def test_value_is_translated_where_its_name_says_what_it_is(subtests: pytest.Subtests) -> None:
    for name, value, said in (
        ("status", "paused", "已暂停"),
        ("title", "paused", "paused"),
        ("on_failure", "give_back", "退回"),
        ("on_failure", "of_tomorrow", "of_tomorrow"),
        ("enabled", True, "是"),
        ("enabled", False, "否"),
        ("end_at", None, "–"),
        ("priority", -5, "-5"),
        ("rule", {"every_days": 2, "at": "09:30"}, "每 2 天的 09:30"),
        ("rule", {"odd": 1}, '{"odd": 1}'),
        ("mode", "multi", "每人最多一次"),
        ("lease_seconds", 5400, "1 小时 30 分钟"),
        ("rule", None, "–"),
        ("rule", "odd", "odd"),
        ("quiet_days", "15", "星期一、星期五"),
        ("start_at", "2026-03-02T09:00:00+00:00", "2026-03-02 17:00:00 UTC+8"),
        ("start_at", "2026-03-02", "2026-03-02"),
        ("start_at", "soon", "soon"),
    ):
        with subtests.test(name=name, value=value):
            with translation.override("zh-hans"), timezone.override("Asia/Shanghai"):
                assert words.value_of(name, value) == said


def test_reason_with_an_instant_is_shown_in_the_zone_of_the_page() -> None:
    reason = "over since 2026-03-03 09:00:00+00:00"
    with timezone.override("Asia/Shanghai"):
        with translation.override("en"):
            assert words.reason_of(reason) == "over since 2026-03-03 17:00:00 UTC+8"
        with translation.override("zh-hans"):
            assert words.reason_of(reason) == "自 2026-03-03 17:00:00 UTC+8 起已结束"


def test_label_of_seconds_has_no_unit_where_the_value_has() -> None:
    with translation.override("en"):
        assert words.name_of("lease_seconds") == "lease"
    with translation.override("zh-hans"):
        assert words.name_of("lease_seconds") == "租约时长"


def test_what_stands_in_no_table_is_said_as_it_is_written() -> None:
    assert words.event_of("moon_landed").words == "Moon landed"
    assert words.name_of("moon_phase") == "moon phase"
    assert words.state_of("waning") == "waning"
