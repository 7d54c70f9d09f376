"""S1.20, S4.2, S4.6, S4.8, S4.13, S4.19: the limits of types, their breakers, jobs that are new, a
changed weight of priority."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.leases import load_position
from apps.jobs.models import Job, TypeState
from apps.jobs.services import hold as holding
from apps.jobs.services import types
from apps.jobs.services.explain import explain
from apps.jobs.services.hold import HeldJob, hold
from apps.jobs.services.reorder import SWEEP, reorder
from tests.frozen import FrozenClock
from tests.jobs import HERE, THERE, end, held_jobs, job_type, jobs, rescue, row, take
from tests.statements import is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_rate_spreads_the_holds_over_the_minute(frozen_clock: FrozenClock) -> None:
    job_type(rate_per_minute=60)
    jobs(100)

    assert len(take()) == 6
    assert take() == []
    frozen_clock.advance(seconds=3)
    assert len(take()) == 3


def test_types_that_are_full_keep_no_place_from_a_lighter_one() -> None:
    """S4.2: whatever share of the slots they would have had."""
    job_type("mail", weight=1000, max_running=0)
    job_type("film", weight=1000, rate_per_minute=0)
    job_type("bill")
    names = ("mail", "film", "bill")
    for name in names:
        jobs(5, name)

    assert [job.type for job in take(10, types=names, rotation=1)] == 5 * ["bill"]


def test_however_many_types_are_full_the_one_with_a_place_is_found() -> None:
    """Also by a worker with one slot, whose looks find one type each."""
    names = [f"full-{n}" for n in range(12)]
    for name in names:
        job_type(name, max_running=0)
        jobs(1, name)
    job_type("bill")
    jobs(13, "bill")

    held = [take(1, types=(*names, "bill"), rotation=turn) for turn in range(13)]

    assert [[job.type for job in each] for each in held] == 13 * [["bill"]]


def test_type_that_is_full_is_read_once_and_nothing_is_written(subtests: pytest.Subtests) -> None:
    """S4.2: on SQLite each commit wakes all drains that wait, and they would wake each other."""
    limits = {"full": {"max_running": 0}, "slow": {"rate_per_minute": 0}}
    for name, settings in {**limits, "off": {"breaker_enabled": True}}.items():
        with subtests.test(name):
            job_type(name, **settings)
            jobs(5, name)
            TypeState.objects.create(type=name, breaker="open", breaker_since=clock.now())
            assert take(types=(name,)) == []

            statements = sent_by(lambda name=name: take(types=(name,)))

            assert not [sql for sql in statements if sql.startswith(("UPDATE", "INSERT"))]
            assert len([sql for sql in statements if is_read(TypeState, sql)]) == 1


def test_open_breaker_stops_the_type_and_one_probe_closes_it(frozen_clock: FrozenClock) -> None:
    """S4.19, I50: a dependency that is down is asked at the rate of probes only."""
    job_type(breaker_enabled=True, breaker_min_calls=4, breaker_open_seconds=30, max_attempts=9)
    jobs(20)
    for held in take(4):
        end(held, "failed", retry="never")

    assert TypeState.objects.get(type="mail").breaker == "open"
    assert take() == []
    frozen_clock.advance(seconds=30)
    [probe] = take()
    assert take() == []
    end(probe)
    assert TypeState.objects.get(type="mail").breaker == "closed"
    assert len(take()) == 15


@pytest.mark.parametrize("how", ["succeeded", "failed", "timed_out", "lost"])
def test_attempts_from_before_it_opened_neither_decide_nor_block_the_probe(
    frozen_clock: FrozenClock, how: str
) -> None:
    """S4.19: nor do they open it again after the probe has closed it."""
    limits = {"lease_seconds": 600, "max_processing_seconds": 600, "max_attempts": 9}
    job_type(breaker_enabled=True, breaker_min_calls=1, breaker_open_seconds=30, **limits)

    def state() -> str:
        return TypeState.objects.get(type="mail").breaker

    def over(held: HeldJob) -> None:
        """The attempt from before ends so, as its worker or the rescue reports it."""
        if how in ("succeeded", "failed"):
            end(held, how, retry="never")
        else:
            column = "hard_end_at" if how == "timed_out" else "lease_until"
            Job.objects.filter(pk=held.id).update(**{column: frozen_clock.instant})
            rescue(frozen_clock)

    jobs(9)
    first, second, third, fourth = take(4)
    end(first, "failed", retry="never")
    assert state() == "open"
    over(second)
    frozen_clock.advance(seconds=30)
    [probe] = take(1)
    assert take(1) == []
    [reason] = [r.code for r in explain(row(jobs(1)[0])) if r.code.startswith("breaker")]
    assert reason == "breaker_probing"
    over(third)
    assert (state(), take(1)) == ("half_open", [])
    end(probe)
    assert state() == "closed"
    over(fourth)
    assert state() == "closed"


def test_lost_workers_are_no_failures_of_what_their_jobs_call(frozen_clock: FrozenClock) -> None:
    """Workers that are killed open no breaker; a probe that is lost is followed by another."""
    job_type(breaker_enabled=True, breaker_min_calls=2, breaker_open_seconds=30, max_attempts=9)
    jobs(6)

    def lost(held: Sequence[HeldJob]) -> str:
        Job.objects.filter(pk__in=[each.id for each in held]).update(
            lease_until=frozen_clock.instant
        )
        rescue(frozen_clock)
        return TypeState.objects.get(type="mail").breaker

    assert lost(take(4)) == "closed"
    for held in take(2):
        end(held, "failed", retry="never")
    frozen_clock.advance(seconds=30)
    assert lost(take()) == "half_open"
    assert len(take()) == 1


def test_attempts_from_before_an_operator_closed_it_do_not_open_it_again() -> None:
    first, second = held_jobs(2, breaker_enabled=True, breaker_min_calls=1)
    end(first, "failed", retry="never")

    mail = types.find("mail")
    assert types.reset_breaker(job_type=mail, actor="admin:ann", reason="mended")
    end(second, "failed", retry="never")

    assert TypeState.objects.get(type="mail").breaker == "closed"


def take_new(number: int, types: tuple[str, ...] = ("mail",)) -> list[HeldJob]:
    return hold(holder=HERE, types=types, limit=8, new=number)


def test_new_job_is_held_by_what_is_announced() -> None:
    """I40: and it is returned as it is now."""
    job_type(lease_seconds=30)
    jobs(3)
    [number] = jobs(1, key="order-1")

    found: list[HeldJob] = []
    statements = sent_by(lambda: found.extend(take_new(number)))

    [held], job = found, row(number)
    assert (held.id, held.key, held.attempt) == (number, "order-1", 1)
    assert (job.status, job.lease_token, job.worker) == ("running", held.token, HERE.name)
    assert not any("ORDER BY order_key" in sql for sql in statements)


def test_job_that_somebody_else_has_is_left_to_them() -> None:
    """I25: one holds it, and the next reads what else there is."""
    job_type()
    [number] = jobs(1)
    [first] = take_new(number)

    assert take_new(number) == []
    assert row(number).lease_token == first.token

    [other] = jobs(1)
    assert [held.id for held in take_new(number)] == [other]


def test_job_that_has_been_held_before_is_held_by_the_full_rules() -> None:
    """S4.19: with the others, even if a wake-up named it."""
    job_type()
    [other], [number] = jobs(1), jobs(1, last_end="lost", holds=1, attempts=1)

    assert {held.id for held in take_new(number)} == {other, number}


def test_limits_of_the_type_hold_for_new_jobs() -> None:
    """S4.3, S4.5: being new buys nothing."""
    held_jobs()
    [number] = jobs(1)
    limits: list[dict[str, Any]]
    limits = [
        {"paused": True},
        {"max_running": 1, "paused": False},
        {"allowed_hosts": ["host-b"], "max_running": 9},
    ]
    for settings in limits:
        job_type(**settings)
        assert take_new(number) == [], settings
    assert row(number).status == "ready"


def test_number_of_another_type_or_host_is_not_taken() -> None:
    job_type()
    job_type("bill")
    [bill] = jobs(1, "bill")
    [there] = jobs(1, affinity_host=THERE.host)

    assert take_new(bill) == take_new(there) == take_new(2**40) == []
    assert {row(bill).status, row(there).status} == {"ready"}


def test_edited_type_is_read_anew_before_its_job_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit applies at the next hold, although this process knows the type as it was."""
    type_ = job_type(lease_seconds=30)
    [number] = jobs(1)
    holding.type_snapshots(["mail"])
    type(type_).objects.update(lease_seconds=60, version=type_.version + 1)

    [held] = take_new(number)

    assert held.lease_until - held.held_at == timedelta(seconds=60)
    assert end(held) == "succeeded"


def sweep() -> int:
    return reorder(until=clock.now() + timedelta(seconds=30))


def test_jobs_are_put_in_the_order_of_the_new_weight(settings: Any) -> None:
    job_type()
    assert sweep() == 0
    [old] = jobs(1, run_at=clock.now() - timedelta(minutes=10))
    [urgent] = jobs(1, priority=5)
    settings.JOB_PROMOTION_BATCH = 1
    settings.JOB_PRIORITY_WEIGHT_MS = 10**12

    assert sweep() == 1

    assert [held.id for held in take()] == [urgent, old]
    assert load_position(SWEEP) == {"weight": 10**12}


def test_running_and_ended_jobs_keep_their_place(settings: Any) -> None:
    job_type()
    sweep()
    [number] = jobs(1, priority=3, status="succeeded")
    before = row(number).order_key
    settings.JOB_PRIORITY_WEIGHT_MS = 0

    assert sweep() == 0
    assert row(number).order_key == before


def test_sweep_cut_short_goes_on_where_it_was(settings: Any) -> None:
    job_type()
    sweep()
    jobs(3, priority=1)
    settings.JOB_PRIORITY_WEIGHT_MS = 0
    settings.JOB_PROMOTION_BATCH = 2
    assert reorder(until=clock.now()) == 0

    assert sweep() == 3
    assert sweep() == 0
