"""S0.7, S0.12: which combinations of a task's fields make sense."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules.task import check_task

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
YEAR_9999 = datetime(9999, 1, 1, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "title": "Check",
    "mode": "multi",
    "dispatch_times": 6,
    "priority": 0,
    "lease_seconds": 60,
    "max_rounds": 3,
    "start_at": START,
    "end_at": None,
}


def test_sensible_task_passes(subtests: pytest.Subtests) -> None:
    for changes in (
        {},
        {"dispatch_times": None},
        {"mode": "single", "dispatch_times": 1},
        {"mode": "blocking", "dispatch_times": 2**31 - 1},
        {"priority": -100},
        {"priority": 100},
        {"lease_seconds": 1},
        {"lease_seconds": 2_592_000},
        {"end_at": START + timedelta(microseconds=1)},
        {"title": "x" * 200},
        {"start_at": datetime(1970, 1, 1, tzinfo=UTC), "end_at": YEAR_9999 - timedelta(seconds=1)},
    ):
        with subtests.test(changes=changes):
            check_task(**{**GOOD, **changes})


def test_senseless_task_is_refused_at_its_field(subtests: pytest.Subtests) -> None:
    for changes, field in (
        ({"dispatch_times": 0}, "dispatch_times"),
        ({"dispatch_times": 2**31}, "dispatch_times"),
        ({"mode": "single", "dispatch_times": 2}, "dispatch_times"),
        ({"mode": "single", "dispatch_times": None}, "dispatch_times"),
        ({"mode": "blocking", "dispatch_times": None}, "dispatch_times"),
        ({"priority": -101}, "priority"),
        ({"priority": 101}, "priority"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": 2_592_001}, "lease_seconds"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": 1001}, "max_rounds"),
        ({"end_at": START}, "end_at"),
        ({"end_at": YEAR_9999}, "end_at"),
        ({"start_at": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)}, "start_at"),
        ({"start_at": YEAR_9999}, "start_at"),
        ({"start_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=8)))}, "start_at"),
        ({"title": "  "}, "title"),
        ({"title": "x" * 201}, "title"),
    ):
        with subtests.test(changes=changes):
            with pytest.raises(Invalid) as caught:
                check_task(**{**GOOD, **changes})
            assert [error.field for error in caught.value.errors] == [field]


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        check_task(**{**GOOD, "title": "", "priority": 1000, "end_at": START})
    assert [error.field for error in caught.value.errors] == ["title", "priority", "end_at"]
