"""Why tasks are left out of a bulk run, and what becomes of the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apps.dispatch.rules import task_verbs as of

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
        ("copy", {}, "a paused copy for the same person or group"),
        ("priority", {"priority": 4}, "priority 0 → 4"),
        ("version", {"version": 3}, "v2 → v3"),
        ("delete", {}, "deleted"),
    ):
        with subtests.test(verb=verb):
            assert str(of.VERBS["once"][verb].sample(TASK, params)) == said
