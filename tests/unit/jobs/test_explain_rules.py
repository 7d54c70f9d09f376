"""Why a job is not running: each reason alone, with the instant at which it could change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.jobs.models import JobType
from apps.jobs.rules import breaker
from apps.jobs.rules.explain import CODES, MAX_AHEAD, Case, Server, reasons

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
HERE = Server(host="host-a", types=frozenset({"mail"}), lanes=frozenset({"fast"}))
NEXT = Case(
    status="ready",
    type="mail",
    worker="",
    attempts=0,
    max_attempts=3,
    run_at=NOW,
    expected_at=NOW,
    affinity_host="",
    affinity_until=None,
    settings=JobType(name="mail", handler="send").snapshot,
    pause_reason="",
    breaker=breaker.BreakerState(),
    running=0,
    probes=0,
    tokens=None,
    filled_at=None,
    workers=[HERE],
    ahead=0,
)


def type_(**settings: Any) -> Any:
    return JobType(name="mail", **{"handler": "send", **settings}).snapshot


def at(**duration: float) -> datetime:
    return NOW + timedelta(**duration)


def aged(**duration: float) -> dict[str, Any]:
    return {"settings": type_(expires_after_seconds=60), "expected_at": at(**duration)}


def broken(seconds: float) -> dict[str, Any]:
    """The breaker opened so long ago."""
    opened = breaker.BreakerState(state="open", since=at(seconds=-seconds))
    return {"settings": type_(breaker_enabled=True, breaker_open_seconds=30), "breaker": opened}


def limited(tokens: float) -> dict[str, Any]:
    return {"settings": type_(rate_per_minute=60), "tokens": tokens, "filled_at": NOW}


def blocked(**limits: int) -> dict[str, Any]:
    return {"status": "blocked", "settings": type_(limit_by="key", **limits)}


CASES: list[tuple[str, dict[str, Any], datetime | None]] = [
    ("running", {"status": "running", "worker": "host-a:1"}, None),
    ("finished", {"status": "succeeded"}, None),
    ("finished", {"status": "failed"}, None),
    ("finished", {"status": "cancelled"}, None),
    ("no_type", {"settings": None}, None),
    ("attempts_used", {"attempts": 3}, None),
    ("expired", aged(seconds=-60), None),
    ("scheduled", {"status": "scheduled", "run_at": at(hours=1)}, at(hours=1)),
    ("scheduled", {"status": "scheduled", "run_at": at(hours=-1)}, NOW),
    ("limited", {**blocked(limit_running=2), "taken": 2, "blocked_ahead": 4}, None),
    ("limited", {**blocked(limit_per_minute=60), "look_at": at(seconds=1)}, at(seconds=1)),
    ("limited", {"status": "blocked", "settings": type_()}, None),
    ("paused", {"settings": type_(paused=True)}, None),
    ("paused", {"settings": type_(paused=True, paused_until=at(hours=2))}, at(hours=2)),
    ("breaker_open", broken(10), at(seconds=20)),
    ("breaker_probing", {**broken(30), "probes": 1}, None),
    ("max_running", {"settings": type_(max_running=2), "running": 2}, None),
    ("max_running", {"settings": type_(max_running=0)}, None),
    ("rate", limited(0.5), at(seconds=0.5)),
    ("rate", {"settings": type_(rate_per_minute=0)}, None),
    ("no_worker", {"workers": []}, None),
    ("no_worker", {"workers": [replace(HERE, types=frozenset({"sms"}))]}, None),
    ("no_worker", {"workers": [replace(HERE, lanes=frozenset({"slow"}))]}, None),
    ("host", {"settings": type_(allowed_hosts=["host-b"])}, None),
    ("affinity", {"affinity_host": "host-a"}, None),
    ("affinity", {"affinity_host": "host-a", "affinity_until": at(minutes=1)}, at(minutes=1)),
    ("ahead", {"ahead": 5}, None),
    ("ahead", {"ahead": MAX_AHEAD}, None),
    ("next", {}, None),
    ("next", {"workers": [replace(HERE, lanes=frozenset())]}, None),
    ("next", {"settings": type_(max_running=2), "running": 1}, None),
    ("next", limited(1.0), None),
    ("next", {"settings": type_(paused=True, paused_until=NOW)}, None),
    ("next", {"settings": type_(allowed_hosts=["host-a"])}, None),
    ("next", aged(seconds=-60, microseconds=1), None),
]


def test_each_reason_alone(subtests: pytest.Subtests) -> None:
    """S1.2, S4.19: what stands in the way, and until when."""
    for code, facts, until in CASES:
        with subtests.test(code=code, facts=facts):
            [reason] = reasons(replace(NEXT, **facts), NOW)
            assert (reason.code, reason.until) == (code, until)
            assert "{" not in reason.detail


@pytest.mark.parametrize(
    "facts",
    [
        {**blocked(limit_running=2), "taken": 1},
        {**blocked(limit_running=2, limit_per_minute=60), "taken": 1},
        {"status": "blocked", "settings": type_()},
    ],
)
def test_blocked_job_is_not_said_to_wait_for_a_limit_that_lets_it_pass(
    facts: dict[str, Any],
) -> None:
    [reason] = reasons(replace(NEXT, blocked_ahead=3, **facts), NOW)
    assert str(reason.detail) == (
        "Its key has a free place, which is filled within a minute; 3 are before this one."
    )


def test_every_code_has_its_case() -> None:
    assert {code for code, _, _ in CASES} | {"preferred"} == set(CODES)


@pytest.mark.parametrize("ahead", [0, 3])
def test_preferring_worker_is_named_and_others_may_take_the_job(ahead: int) -> None:
    """S4.10"""
    found = reasons(replace(NEXT, ahead=ahead, preferred_by="host-b:7"), NOW)

    assert [reason.code for reason in found] == ["ahead" if ahead else "next", "preferred"]
    assert (
        found[1].detail == "Worker host-b:7 prefers its shard. Any other worker may take it, too."
    )


def test_all_reasons_are_reported() -> None:
    """The most final first."""
    case = replace(
        NEXT,
        status="scheduled",
        run_at=at(hours=1),
        settings=type_(paused=True, max_running=1),
        running=1,
        workers=[],
        ahead=3,
    )

    codes = [reason.code for reason in reasons(case, NOW)]

    assert codes == ["scheduled", "paused", "max_running", "no_worker"]
