"""S1.2: which jobs are meant; tests/integration/test_filters.py has the filters of all rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.common.errors import Invalid
from apps.common.filtering import RowFilter
from apps.jobs.services.job_filters import JobFilters

SHANGHAI = ZoneInfo("Asia/Shanghai")


def test_conditions_in_one_text_and_in_a_list_mean_the_same() -> None:
    typed = JobFilters.read_address({"where": " context.city: 北京  result.sent：true"}, SHANGHAI)
    sent = JobFilters.read({"where": ["context.city:北京", "result.sent:true"]})
    assert typed == sent
    assert typed.given == {"where": typed.where}


def test_days_are_those_of_the_zone_and_the_narrower_period_counts() -> None:
    given = {"from_day": "2026-03-02", "to_day": "2026-03-03"}
    found = JobFilters.read_address(given, SHANGHAI)
    assert found.get("created_after") == datetime(2026, 3, 1, 16, tzinfo=UTC)
    assert found.get("created_before") == datetime(2026, 3, 3, 16, tzinfo=UTC)
    given = {"from_day": "2026-03-02", "since": "2026-03-05T00:00:00Z"}
    for each in (given, dict(reversed(given.items()))):
        found = JobFilters.read_address(each, UTC)
        assert found.get("created_after") == datetime(2026, 3, 5, tzinfo=UTC)


def test_instant_before_or_after_all_rows_is_one_that_means_all() -> None:
    """Programs say "for ever" so."""
    for text in ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "2200-01-01T00:00:00.1Z"):
        found = JobFilters.read(
            {"created_before": text, "created_after": "0001-01-01T00:00:00+14:00"}
        )
        assert found.get("created_before") == datetime(2200, 1, 1, tzinfo=UTC)
        assert found.get("created_after") == datetime(1970, 1, 1, tzinfo=UTC)
        assert JobFilters.read(found.wire()) == found


def test_a_filter_read_back_from_its_json_is_the_same() -> None:
    given: dict[str, Any] = {
        "ids": ["7", "9"],
        "type": ["mail", "web"],
        "priority_from": -5,
        "priority_to": 0,
        "created_after": "2026-03-02T00:00:00Z",
        "memo": "busy",
        "where": ["context.order.city:北京", "result.items[0].sku: S7 "],
    }
    found = JobFilters.read(given)
    assert found.wire() == given
    assert JobFilters.read(found.wire()) == found
    assert found.get("priority_to") == 0


def test_wrong_values_are_refused_by_name(subtests: pytest.Subtests) -> None:
    for given, said in (
        ({"type": "a b"}, "a b is not a name"),
        ({"status": "gone"}, "gone is none of the choices"),
        ({"ids": "7,x"}, "x is not a number"),
        ({"priority_to": 101}, "from -100 to 100"),
        ({"created_after": "2026-03-02"}, "not a time"),
        ({"colour": "red"}, "There is no filter colour"),
        ({"memo": "x" * 201}, "at most 200"),
        ({"where": "city:x"}, "A path begins with: context, result"),
        ({"where": ["context.a:1", 7]}, "7 is no search in a payload"),
        ({"where": [f"context.a:{n}" for n in range(4)]}, "More than 3 values"),
        ({"type": "a b", "status": "gone"}, "a b is not a name"),
    ):
        with subtests.test(given=given):
            with pytest.raises(Invalid, match=said) as refused:
                JobFilters.read(given)
            assert [each.field for each in refused.value.errors] == [*given]


def test_parts_of_a_filter() -> None:
    both = JobFilters.read({"priority_to": 3, "key": "order-1", "type": "mail,web"})
    assert [*both.given] == ["type", "key", "priority_to"]
    assert both.without("key").given == {"type": ("mail", "web"), "priority_to": 3}
    assert both.only(["key"]) == RowFilter({"key": "order-1"})
