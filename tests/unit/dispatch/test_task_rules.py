"""S0.5, S0.7, S0.12: which fields of a task make sense together, which names executors have, and
what a bulk run makes of tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules import task_verbs as of
from apps.dispatch.rules.names import is_group, is_name, kind_of, require_user
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


# --- names of executors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [("uid_a", "user"), ("gid_a", "group"), ("uid_a.b@c-d_9", "user")]
)
def test_prefix_gives_the_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert is_group(name) is (kind == "group")


def test_anything_else_is_no_name(subtests: pytest.Subtests) -> None:
    for name in (
        *("", "alice", "uid_", "UID_a", "uid_a ", " uid_a", "uid_á", "uid_a\n"),
        "uid_" + "x" * 125,
    ):
        with subtests.test(name=name):
            assert not is_name(name)
            with pytest.raises(Invalid, match="uid_… for a user or gid_…"):
                kind_of(name)


def test_group_is_no_user() -> None:
    with pytest.raises(Invalid, match="gid_a is a group") as caught:
        require_user("gid_a", field="add[3]")
    assert caught.value.errors[0].field == "add[3]"


# --- bulk runs ------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LATER = datetime(2026, 4, 1, tzinfo=UTC)
TASK: dict[str, Any] = {
    **{"status": "active", "start_at": NOW, "end_at": LATER, "priority": 0},
    "template_version": 2,
}
ROTATION = {
    **TASK,
    "start_at": datetime(2026, 3, 1, tzinfo=UTC),
    "end_at": None,
    "rule_json": '{"cron": "0 9 * * *"}',
    "time_zone": "UTC",
}


def test_reason_why_a_task_is_left_out(subtests: pytest.Subtests) -> None:
    for verb, facts, params, why in (
        ("pause", TASK, {}, None),
        ("pause", {**TASK, "status": "paused"}, {}, "paused"),
        ("resume", TASK, {}, "active"),
        ("copy", {**TASK, "status": "paused"}, {}, None),
        ("copy", {**TASK, "status": "deleted"}, {}, "deleted"),
        ("priority", TASK, {"priority": 0}, "has this priority already"),
        ("priority", TASK, {"priority": 1}, None),
        ("end", TASK, {"end_at": LATER}, "has this end already"),
        ("end", TASK, {"end_at": NOW}, "starts later"),
        ("version", TASK, {"version": 3}, None),
        ("version", TASK, {"version": 2}, "has this version already"),
        ("version", {**TASK, "template_version": None}, {}, "has no template"),
        ("shift", TASK, {"shift_seconds": 60}, None),
        ("shift", ROTATION, {"shift_seconds": 60}, "would be due at the same times as before"),
        ("shift", ROTATION, {}, None),
        ("shift", {**ROTATION, "end_at": LATER}, {"shift_seconds": 60}, None),
        (
            "shift",
            {**TASK, "end_at": datetime(9998, 12, 31, tzinfo=UTC)},
            {"shift_seconds": 366 * 86_400},
            "That lies beyond the calendar",
        ),
    ):
        with subtests.test(verb=verb, facts=facts, params=params):
            source = "rotate" if "rule_json" in facts else "once"
            found = of.VERBS[source][verb].why_not(facts, params, NOW)
            assert found is None if why is None else str(found).startswith(why)


def test_sample_says_what_becomes_of_a_task(subtests: pytest.Subtests) -> None:
    for verb, params, said in (
        ("pause", {}, "paused"),
        ("copy", {}, "a paused copy for the same executor"),
        ("priority", {"priority": 4}, "priority 0 → 4"),
        ("version", {"version": 3}, "v2 → v3"),
        ("delete", {}, "deleted"),
    ):
        with subtests.test(verb=verb):
            assert str(of.VERBS["once"][verb].sample(TASK, params)) == said
