"""S4.13: a worker woken for a new job holds it without reading the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.jobs.services import hold as holding
from apps.jobs.services.hold import HeldJob, hold
from tests.jobs import HERE, THERE, end, held_jobs, job_type, jobs, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def take_new(number: int, types: tuple[str, ...] = ("mail",)) -> list[HeldJob]:
    return hold(holder=HERE, types=types, limit=8, new=number)


def test_new_job_is_held_by_what_is_announced() -> None:
    """I40: and it is returned as it is now."""
    job_type(lease_seconds=30)
    jobs(3)
    [number] = jobs(1, key="order-1")

    with CaptureQueriesContext(connection) as statements:
        [held] = take_new(number)

    job = row(number)
    assert (held.id, held.key, held.attempt) == (number, "order-1", 1)
    assert (job.status, job.attempts, job.holds, job.lease_token) == ("running", 1, 1, held.token)
    assert (job.worker, job.host, job.client) == (HERE.name, HERE.host, "")
    assert not any("ORDER BY order_key" in each["sql"] for each in statements)


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
