"""What holds always, seen by workers over HTTP. I25-I36; those of races are in test_work_races."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job, JobType
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.type_snapshots import forget_type_snapshots
from tests.frozen import FrozenClock
from tests.integration.api import work_calls
from tests.integration.api.contract import ContractClient
from tests.integration.api.work_calls import JOBS, SETTLE, Held, beat, named
from tests.jobs import job_type, jobs, rescue, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]

LEASE_SECONDS = 30


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail", stages=["draw", "cut"], max_attempts=3, retry_delay_seconds=0)


def hold(api: ContractClient, **fields: Any) -> list[Held]:
    return work_calls.hold(api, lease_seconds=LEASE_SECONDS, **fields)["jobs"]


def settle(api: ContractClient, *outcomes: Held) -> list[str]:
    """The status or the code that each is answered with."""
    return [each.get("status") or each["code"] for each in work_calls.settle(api, *outcomes)]


def test_wait_before_a_retry_has_its_limits(api: ContractClient, frozen_clock: FrozenClock) -> None:
    """I32: never negative and never above the cap and its jitter, whatever is asked for."""
    job_type("mail", max_attempts=9, retry_multiplier=1000, retry_max_seconds=60)
    JobType.objects.update(retry_delay_seconds=1, retry_jitter=0.5)
    forget_type_snapshots()
    [number] = jobs(1)
    waits = []
    for _ in range(8):
        [job] = hold(api)
        settle(api, named(job, outcome="failed"))
        waits.append((row(number).run_at - clock.now()).total_seconds())
        frozen_clock.move_to(row(number).run_at)
    [job] = hold(api)

    assert 0.5 <= waits[0] <= 1.5
    assert all(30 <= wait <= 90 for wait in waits[1:])
    for wrong in (-1, -0.001, 367 * 86_400, 1e300, "1", True):
        body = {"worker": "pi-1", "outcomes": [named(job, outcome="failed", retry_after=wrong)]}
        assert api.post(SETTLE, body).status_code == 400


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "failed", "retry_after": 60},
        {"outcome": "yielded", "delay": 60},
        {"outcome": "yielded", "run_at": "2026-03-02T09:01:00Z"},
        {"outcome": "stage_done", "stage": "cut", "delay": 60},
        None,
    ],
    ids=lambda outcome: outcome["outcome"] if outcome else "submitted",
)
def test_nothing_is_held_before_its_time(
    api: ContractClient, frozen_clock: FrozenClock, outcome: Held | None
) -> None:
    """I33: by the clock of the server."""
    if outcome is None:
        api.post(JOBS, {"type": "mail", "delay": 60})
    else:
        jobs(1, stage="draw")
        [job] = hold(api)
        assert settle(api, named(job, **outcome)) == ["scheduled"]
    [number] = Job.objects.values_list("pk", flat=True)

    frozen_clock.advance(seconds=59.999)
    assert hold(api) == []
    frozen_clock.advance(seconds=0.001)
    assert [each["id"] for each in hold(api)] == [str(number)]


def test_lowest_priority_waits_for_a_limited_time(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """I34: for the head start of the highest one; then it comes first."""
    [low] = jobs(1, priority=-100)
    frozen_clock.advance(minutes=199)
    [high] = jobs(1, priority=100)
    assert [each["id"] for each in hold(api, limit=1)] == [str(high)]
    frozen_clock.advance(minutes=2)
    jobs(5, priority=100)

    assert [each["id"] for each in hold(api, limit=1)] == [str(low)]


def test_job_whose_type_is_gone_keeps_no_other_from_its_end(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """I36: neither from being held, nor renewed, nor settled; it fails and says why."""
    job_type("bill")
    jobs(2), jobs(1, "bill")
    held = {job["type"]: job for job in hold(api, types=["bill", "mail"], limit=2)}
    [waiting] = jobs(1, "bill")
    JobType.objects.filter(name="bill").delete()
    forget_type_snapshots()

    leases = [named(held["bill"]), named(held["mail"])]
    beaten = beat(api, *leases)
    answers = settle(api, *(named(held[name], outcome="succeeded") for name in ("bill", "mail")))
    more = hold(api, types=["bill", "mail"])

    assert [each["ok"] for each in beaten] == [False, True]
    assert answers == ["not_found", "succeeded"]
    assert [job["type"] for job in more] == ["mail"]
    frozen_clock.advance(seconds=LEASE_SECONDS)
    rescue(frozen_clock)
    discard_exhausted(until=clock.now() + timedelta(minutes=5))
    for number in (waiting, int(held["bill"]["id"])):
        assert (row(number).status, row(number).memo) == (
            "failed",
            "there is no job type bill any more",
        )
