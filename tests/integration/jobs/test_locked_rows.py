"""S1.2, F5: a person changes jobs by SQL and leaves the transaction open; a worker freezes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from apps.common import clock
from apps.jobs.models import Job, JobType
from apps.jobs.services import locked
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.hold import claims, hold
from apps.jobs.services.leases import Heartbeat, Renewed, renew
from apps.jobs.services.promote import promote_due
from apps.jobs.services.recent_work import RecentWork
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.rescue import rescue_all_of, rescue_due
from tests.jobs import HERE, end, job_type, jobs, row, take

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MariaDB waits 50 seconds by default."""
    monkeypatch.setattr(locked, "LOCKED_SECONDS", 0.0)
    monkeypatch.setattr(locked, "_locked", frozenset())
    _wait_for(2)
    yield
    _wait_for(50)


def _wait_for(seconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [seconds])


@contextmanager
def changing(*numbers: int) -> Iterator[None]:
    """Somebody has changed the jobs and not committed yet."""
    changed, over = threading.Event(), threading.Event()

    def change() -> None:
        with transaction.atomic():
            Job.objects.filter(pk__in=numbers).update(memo="by hand")
            changed.set()
            over.wait(300)
        connections.close_all()

    person = threading.Thread(target=change)
    person.start()
    try:
        assert changed.wait(60)
        yield
    finally:
        over.set()
        person.join()


@pytest.mark.parametrize("limits", [{}, {"max_running": 2}])
def test_worker_that_was_too_slow_takes_what_nobody_else_is_taking(
    limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Else those who want one job each would wait for each other all the time."""
    job_type(**limits)
    first, second, third = jobs(3)
    caplog.set_level(logging.INFO, "apps.jobs.services.hold")
    recent = RecentWork()

    def take_one() -> list[int]:
        """The last claim's; the first one comes after others."""
        held = []
        for claim in claims(holder=HERE, types=["mail"], limit=1, recent=recent):
            if not recent.is_contested("mail"):
                Job.objects.filter(pk=first).update(run_at=clock.now(), status="succeeded")
            with claim:
                claim.take()
            held = claim.held
        return [job.id for job in held]

    assert take_one() == [second]
    assert recent.is_contested("mail")
    fourth, fifth = jobs(2)
    Job.objects.filter(pk=second).update(status="succeeded")
    with changing(third):
        assert take_one() == [fourth]
    assert take_one() == [third]
    assert take_one() == ([] if limits else [fifth])
    assert "a lock was lost" not in caplog.text


@pytest.mark.parametrize("limits", [{}, {"max_running": 20}])
def test_workers_that_met_take_batches_beside_each_other(limits: dict[str, Any]) -> None:
    job_type(**limits)
    numbers = jobs(30)
    recent = RecentWork()
    recent.note_lost(["mail"])

    with changing(*numbers[:10], *numbers[15:17]):
        held = hold(holder=HERE, types=["mail"], limit=10, recent=recent)

    assert [job.id for job in held] == [*numbers[10:15], *numbers[17:22]]


@pytest.mark.parametrize("limits", [{}, {"batch_limit": 1}, {"max_running": 9}])
def test_locked_job_keeps_no_other_from_being_held(
    limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    job_type(**limits)
    first, *others = jobs(5)
    limit = limits.get("batch_limit", 9)
    caplog.set_level(logging.INFO, "apps.jobs.services.hold")

    with changing(first):
        assert [held.id for held in take(9)] == others[:limit]
        assert caplog.text.count("hold: a lock was lost") == 1
        more = jobs(1)
        assert take(9)[0].id in {*others, *more}
        # The second time it has waited for nobody.
        assert caplog.text.count("hold: a lock was lost") == 1

    while held := take(9):
        if first in [each.id for each in held]:
            break
    assert row(first).status == "running"
    assert row(first).memo == "by hand"


def test_locked_jobs_of_one_type_are_nothing_to_another(caplog: pytest.LogCaptureFixture) -> None:
    """S2.3: one table, and no statement for one type touches a row of another."""
    job_type("bill"), job_type("mail")
    [bill] = jobs(1, "bill")
    numbers = jobs(5)
    caplog.set_level(logging.INFO, "apps.jobs.services")

    with changing(bill):
        held = take(9)
        assert [each.id for each in held] == numbers
        assert [end(each) for each in held] == ["succeeded"] * 5

    assert "lock" not in caplog.text


@pytest.mark.parametrize("block", [1, 1_000])
def test_locked_job_keeps_no_other_from_falling_due(block: int, settings: Any) -> None:
    settings.JOB_PROMOTION_BATCH = block
    job_type()
    past = clock.now() - timedelta(seconds=9)
    first, *others = jobs(3, status="scheduled", run_at=past)

    with changing(first):
        assert sum(promote_due() for _ in range(4)) == len(others)

    assert promote_due() == 1
    assert {row(number).status for number in (first, *others)} == {"ready"}


@pytest.mark.parametrize("way", ["lease", "deadline", "lost", "left"])
def test_locked_jobs_keep_no_other_from_their_rescue(way: str, settings: Any) -> None:
    """Also if all of the first block are locked."""
    settings.JOB_RESCUE_BATCH = 2
    job_type()
    numbers = jobs(7)
    take(9)
    first, others = numbers[:3], numbers[3:]
    until, worker = clock.now() + timedelta(minutes=9), WorkerKey("", "host-a:1")
    if way in ("lease", "deadline"):
        Job.objects.update(lease_until=clock.now(), hard_end_at=clock.now())

    def rescued() -> int:
        if way == "left":
            return rescue_all_of(worker=worker, until=until)
        lost = [worker] if way == "lost" else []
        return rescue_due(until=until, lost=lost, by_lease=way == "lease")

    with changing(*first):
        assert rescued() == len(others)
        assert clock.now() < until
        assert {row(number).status for number in first} == {"running"}

    assert rescued() == len(first)
    assert "running" not in {row(number).status for number in numbers}


def test_locked_jobs_keep_no_other_from_being_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all that are read at once are locked."""
    monkeypatch.setattr("apps.jobs.services.discard.MAX_READ", 2)
    job_type()
    numbers = jobs(7)
    first, others = numbers[:3], numbers[3:]
    JobType.objects.all().delete()
    until = clock.now() + timedelta(minutes=1)

    with changing(*first):
        assert discard_exhausted(until=until) == len(others)
        assert clock.now() < until

    assert discard_exhausted(until=until) == len(first)


def test_worker_that_freezes_in_a_sign_of_life_keeps_no_job_locked() -> None:
    job_type()
    numbers = jobs(2)
    held = take(9)
    free = []

    def freeze(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, parameters, many, context)
        with ThreadPoolExecutor(1) as somebody:
            free.append(somebody.submit(free_jobs).result())
        return answer

    with connection.execute_wrapper(freeze):
        renewed = renew(heartbeats=[Heartbeat(id=each.id, token=each.token) for each in held])

    assert all(isinstance(each, Renewed) for each in renewed)
    assert len(free) > 1
    assert all(found == numbers for found in free)


def free_jobs() -> list[int]:
    """The jobs that nobody has locked."""
    try:
        with transaction.atomic():
            found = Job.objects.select_for_update(skip_locked=True).order_by("id")
            return list(found.values_list("pk", flat=True))
    finally:
        connections.close_all()
