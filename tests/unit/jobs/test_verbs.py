"""I58: which jobs each bulk action leaves out, and what it says of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.jobs.rules import transitions as t
from apps.jobs.rules import verbs

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
WITH_FIELDS: dict[str, dict[str, Any]] = {
    verbs.PRIORITY: {"priority": 40},
    verbs.TIME: {"shift_seconds": 60},
    verbs.MAX_ATTEMPTS: {"max_attempts": 5},
    verbs.MOVE: {"host": "host-a"},
}


def facts(status: str = t.READY, **more: Any) -> dict[str, Any]:
    usual = {"priority": 0, "run_at": NOW, "attempts": 1, "max_attempts": 3, "affinity_host": ""}
    return {"status": status, "cancel_requested": False, **usual, **more}


def test_each_action_takes_its_states_and_says_why_not_the_others(
    subtests: pytest.Subtests,
) -> None:
    for verb, changed in (
        (verbs.CANCEL, {*t.OPEN}),
        (verbs.RETRY, {t.FAILED, t.CANCELLED}),
        (verbs.RUN_NOW, {t.SCHEDULED, t.BLOCKED}),
        (verbs.MARK_DONE, {*t.WAITING, t.FAILED}),
        *((verb, {*t.WAITING}) for verb in WITH_FIELDS),
    ):
        with subtests.test(verb=verb):
            params = WITH_FIELDS.get(verb, {})
            found = {
                each: verbs.VERBS[verb].why_not(facts(each), params, NOW) for each in t.STATUSES
            }
            assert {each for each, why in found.items() if why is None} == changed
            assert all(str(why) for each, why in found.items() if each not in changed)


def test_what_would_change_nothing_is_left_out(subtests: pytest.Subtests) -> None:
    for verb, more, params, why in (
        (verbs.CANCEL, {"status": t.RUNNING, "cancel_requested": True}, {}, "asked to stop"),
        (verbs.RETRY, {"status": t.SUCCEEDED}, {"succeeded": False}, "succeeded"),
        (verbs.RETRY, {"status": t.SUCCEEDED}, {"succeeded": True}, "None"),
        (verbs.PRIORITY, {"priority": 40}, {"priority": 40}, "this priority already"),
        (verbs.TIME, {}, {"run_at": NOW}, "this time already"),
        (verbs.MAX_ATTEMPTS, {}, {"max_attempts": 3}, "this maximum already"),
        (verbs.MAX_ATTEMPTS, {"attempts": 2}, {"max_attempts": 2}, "used as many tries"),
        (verbs.MAX_ATTEMPTS, {"attempts": 1}, {"max_attempts": 2}, "None"),
        (verbs.MOVE, {"affinity_host": "host-a"}, {"host": "host-a"}, "this host already"),
        (verbs.MOVE, {}, {"host": ""}, "this host already"),
    ):
        with subtests.test(verb=verb, more=more):
            assert why in str(verbs.VERBS[verb].why_not(facts(**more), params, NOW))


def test_running_jobs_are_told_apart() -> None:
    assert verbs.VERBS[verbs.CANCEL].note(facts(t.RUNNING)) == "running: asked to stop"
    assert verbs.VERBS[verbs.CANCEL].note(facts(t.READY)) is None


def test_spread_begins_with_the_oldest_at_the_time_or_at_the_start_of_the_run(
    subtests: pytest.Subtests,
) -> None:
    """And a shift moves each job from its own time."""
    for params, share, seconds in (
        ({"spread_seconds": 3600}, 0, 0),
        ({"spread_seconds": 3600}, 0.25, 900),
        ({"run_at": NOW + timedelta(hours=1), "spread_seconds": 60}, 0.5, 3630),
        ({"run_at": NOW + timedelta(hours=1)}, 0.5, 3600),
        ({"shift_seconds": -90}, 0.5, 86_400 - 90),
    ):
        with subtests.test(params=params, share=share):
            given = facts(run_at=NOW + timedelta(days=1), share=share, begun=NOW)
            assert verbs.VERBS[verbs.TIME].why_not(given, params, NOW) is None
            assert verbs.VERBS[verbs.TIME].changes(given, params) == {
                "run_at": NOW + timedelta(seconds=seconds)
            }


def test_wrong_fields_are_named(subtests: pytest.Subtests) -> None:
    for verb, params, fields in (
        (verbs.TIME, {"run_at": NOW, "shift_seconds": 1}, ["run_at"]),
        (verbs.TIME, {"shift_seconds": 366 * 86_400 + 1}, ["shift_seconds"]),
        (verbs.TIME, {"shift_seconds": 366 * 86_400}, []),
        (verbs.TIME, {"shift_seconds": 0}, ["shift_seconds"]),
        (verbs.TIME, {"spread_seconds": 1, "shift_seconds": 1}, ["run_at"]),
        (verbs.TIME, {"spread_seconds": 0}, ["spread_seconds"]),
        (verbs.TIME, {"run_at": NOW, "spread_seconds": 366 * 86_400}, []),
        (verbs.PRIORITY, {"priority": -100}, []),
        (verbs.PRIORITY, {"priority": -101}, ["priority"]),
        (verbs.PRIORITY, {"priority": True}, ["priority"]),
        (verbs.MOVE, {"host": ""}, []),
        (verbs.MOVE, {}, ["host"]),
        (verbs.RETRY, {"succeeded": 1}, ["succeeded"]),
        (verbs.CANCEL, {"colour": "red"}, ["colour"]),
    ):
        with subtests.test(verb=verb, params=params):
            assert [each.field for each in verbs.VERBS[verb].faults(params, NOW)] == fields
