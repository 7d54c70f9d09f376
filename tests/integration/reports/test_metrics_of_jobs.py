"""What `/metrics` says of jobs, their types and their workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.jobs.models import TypeState, Worker
from apps.jobs.rules import breaker
from apps.jobs.services import register
from tests.frozen import FrozenClock
from tests.integration.reports.prometheus import samples
from tests.jobs import job_type, jobs, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


@pytest.fixture(autouse=True)
def embedded(settings: Any) -> None:
    settings.EMBEDDED = True


def test_jobs_are_counted_by_type_and_status(client: Client) -> None:
    job_type()
    job_type("idle")
    jobs(5)
    take(2)
    jobs(3, run_at=clock.now() + timedelta(hours=1))

    said = samples(client)

    assert said["jobs{status=ready,type=mail}"] == 3
    assert said["jobs{status=running,type=mail}"] == 2
    assert said["jobs{status=scheduled,type=mail}"] == 3
    assert said["jobs{status=ready,type=idle}"] == 0


def test_oldest_due_is_the_one_that_waits_longest_whatever_stands_before_it(client: Client) -> None:
    job_type()
    job_type("idle")
    jobs(1, run_at=clock.now() - timedelta(seconds=30))
    jobs(1, run_at=clock.now() - timedelta(seconds=90), priority=-100)
    jobs(1, run_at=clock.now() - timedelta(seconds=120), affinity_host="host-x")

    said = samples(client)

    assert said["jobs_oldest_due_seconds{type=mail}"] == 120
    assert said["jobs_oldest_due_seconds{type=idle}"] == 0


def test_scheduled_job_whose_time_has_passed_is_promotion_lag(
    client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    jobs(1, run_at=clock.now() + timedelta(seconds=5))
    assert samples(client)["jobs_promotion_lag_seconds"] == 0

    frozen_clock.advance(seconds=12)

    assert samples(client)["jobs_promotion_lag_seconds"] == 7


@pytest.mark.both
def test_pauses_and_breakers_are_reported(client: Client, frozen_clock: FrozenClock) -> None:
    job_type(paused=True)
    job_type("web", breaker_enabled=True, breaker_open_seconds=30)
    TypeState.objects.create(type="web", breaker=breaker.OPEN, breaker_since=clock.now())

    said = samples(client)
    assert said["job_type_paused{type=mail}"] == 1
    assert said["job_type_paused{type=web}"] == 0
    assert said["job_type_breaker{state=open,type=web}"] == 1
    assert said["job_type_breaker{state=closed,type=web}"] == 0
    assert "job_type_breaker{state=open,type=mail}" not in said

    frozen_clock.advance(seconds=30)
    assert samples(client)["job_type_breaker{state=half_open,type=web}"] == 1


@pytest.mark.both
def test_live_workers_are_counted_with_their_slots(client: Client) -> None:
    for name in ("w1", "w2", "w3"):
        register.register(name=name, host="h1", capacity=4)
    register.register(name="w4", host="h2", kind=Worker.Kind.HTTP, capacity=9)
    register.register(name="w5", host="h1", capacity=4)
    Worker.objects.filter(name="w5").update(is_quiet=True)
    register.beat(name="w2", drains={}, running=0, stopping=True)
    Worker.objects.filter(name="w3").update(last_heartbeat_at=clock.now() - timedelta(minutes=1))

    said = samples(client)

    assert said["workers{kind=celery,state=active}"] == 1
    assert said["workers{kind=celery,state=draining}"] == 1
    assert said["workers{kind=celery,state=quiet}"] == 1
    assert said["workers{kind=http,state=active}"] == 1
    assert said["worker_places"] == 8
