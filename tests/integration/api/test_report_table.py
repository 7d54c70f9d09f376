"""Which answer a report gets, whatever came before it. S2.16; I26, I30, I31.

| report | answer | journal |
|---|---|---|
| the first under its token | the status after it | its end |
| the same again | the first answer | nothing |
| another one | `conflict` | nothing |
| its lease was lost | `lease_lost` | one `stale` for each token |
| of another key | `not_found` | nothing |
| not to be stored | `invalid`; the lease stands | nothing |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.common import clock
from apps.jobs.models import Job
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.jobs import events_of, job_type, jobs, rescue, row

pytestmark = pytest.mark.django_db

HOLD, SETTLE, BEAT = (f"/api/v1/jobs/{name}/" for name in ("hold", "settle", "heartbeat"))
LEASE_SECONDS = 30
WRONG = {"outcome": "released", "result": 1}
REPORTS: list[dict[str, Any]] = [
    {"outcome": "succeeded"},
    {"outcome": "succeeded", "result": [1, {"a": None}]},
    {"outcome": "failed", "error": "no route", "retry_after": 0},
    {"outcome": "failed", "retry": "never"},
    {"outcome": "released"},
    {"outcome": "released", "memo": "full"},
    {"outcome": "yielded", "priority": 7, "context": {"to": "b"}, "delay": 2},
    {"outcome": "yielded"},
    {"outcome": "cancelled"},
]
# Each step with the hold that it is about, counted from the newest.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "wait", "lose", "beat", "foreign", "wrong", *["report"] * 6]),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from(REPORTS),
    ),
    max_size=25,
)


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail", max_attempts=100, retry_delay_seconds=0)


@dataclass
class Held:
    """A hold of the job: its token, and how it ended."""

    token: str
    report: dict[str, Any] | None = None
    answer: str = ""
    is_lost: bool = False

    @property
    def runs(self) -> bool:
        return self.report is None and not self.is_lost


def hold(api: ContractClient) -> list[dict[str, Any]]:
    body = {"worker": "pi-1", "types": ["mail"], "lease_seconds": LEASE_SECONDS}
    return api.post(HOLD, body).json()["jobs"]


def word(api: ContractClient, number: int, token: str, report: dict[str, Any]) -> str:
    """The status or the code that a report is answered with."""
    outcome = {"id": str(number), "lease_token": token, **report}
    [result] = api.post(SETTLE, {"worker": "pi-1", "outcomes": [outcome]}).json()["results"]
    return result["status"] if result["ok"] else result["code"]


def expected(held: Held, report: dict[str, Any]) -> str:
    """The answer by the table; that to the first report under a token is not known before."""
    if held.is_lost:
        return "lease_lost"
    return held.answer if report == held.report else "conflict"


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_every_report_is_answered_by_the_table(
    api: ContractClient,
    api_for: ApiFor,
    frozen_clock: FrozenClock,
    steps: list[tuple[str, int, dict[str, Any]]],
) -> None:
    Job.objects.all().delete()
    other = api_for()
    [number] = jobs(1, priority=1)
    events: Counter[str] = Counter()
    stale: set[str] = set()
    holds: list[Held] = []
    for step, back, report in [("hold", 0, {}), *steps]:
        if step == "wait":
            frozen_clock.advance(seconds=1)
        elif step == "hold":
            waiting = row(number)
            is_due = waiting.status in ("ready", "scheduled") and waiting.run_at <= clock.now()
            found = hold(api)
            assert [each["id"] for each in found] == [str(number)] * is_due
            holds += [Held(each["lease_token"]) for each in found]
        elif step == "lose":
            frozen_clock.advance(seconds=LEASE_SECONDS)
            rescue(frozen_clock)
            for each in holds:
                if each.runs:
                    each.is_lost = True
                    events["lost"] += 1
        else:
            held = holds[max(-1 - back, -len(holds))]
            before = row(number)
            if step == "foreign":
                assert word(other, number, held.token, report) == "not_found"
            elif step == "wrong":
                assert word(api, number, held.token, WRONG) == "invalid"
            elif step == "beat":
                sign = {"id": str(number), "lease_token": held.token}
                [lease] = api.post(BEAT, {"worker": "pi-1", "leases": [sign]}).json()["leases"]
                assert (lease["ok"], lease.get("code")) == (
                    (True, None) if held.runs else (False, "lease_lost")
                )
                continue
            elif held.runs:
                held.report, held.answer = report, word(api, number, held.token, report)
                assert held.answer == row(number).status != "running"
                events[report["outcome"]] += 1
                continue
            else:
                assert word(api, number, held.token, report) == expected(held, report)
                if held.is_lost:
                    stale.add(held.token)
            after = row(number)
            assert (after.status, after.version) == (before.status, before.version)

    assert Counter(events_of(number)) == events + Counter({"stale": len(stale)})
    after = row(number)
    released = events["released"] + events["yielded"]
    assert (after.holds, after.attempts) == (len(holds), len(holds) - released)


def test_fifty_repeats_are_one_entry(
    api: ContractClient, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """Many in one request, and alone with all others between them, each of which is a conflict."""
    for report in REPORTS:
        with subtests.test(report=report), undone():
            [number] = jobs(1, priority=1)
            [held] = hold(api)
            token = held["lease_token"]
            first = word(api, number, token, report)
            outcome = {"id": str(number), "lease_token": token, **report}

            for other in REPORTS:
                frozen_clock.advance(seconds=1)
                told = first if other == report else "conflict"
                assert word(api, number, token, other) == told, other
            answer = api.post(SETTLE, {"worker": "pi-2", "outcomes": [outcome] * 45}).json()

            assert {result["status"] for result in answer["results"]} == {first}
            assert len(events_of(number)) == 1
