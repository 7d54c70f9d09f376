"""S1.4, I25, I27, I30, I31, I40, I58: of those who come at the same instant one wins, and all learn
of it: holders, reporters, submitters and operators."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from zlib import crc32

import pytest
from django.db import OperationalError, connection, connections, transaction

from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.models import Job, UniqueLock
from apps.jobs.models.unique_lock import UNIQUE_LOCKS
from apps.jobs.rules.submission import unique_key
from apps.jobs.services import control
from apps.jobs.services.hold import HeldJob, Holder
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.submit import Submission, submit, submit_many
from apps.journal.models import JournalEntry
from tests import factories
from tests.jobs import end, events_of, job_type, jobs, row, share, take
from tests.races import Race

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

Racers = Callable[[Sequence[Callable[[], Any]]], Race]


def drained(by: Holder) -> list[HeldJob]:
    """Everything that one worker gets, until a hold finds nothing."""
    mine: list[HeldJob] = []
    while held := take(7, by=by):
        mine += held
    return mine


def test_many_workers_never_hold_a_job_twice(racers: Racers) -> None:
    """S4.9, S4.18: the claim stays right when many do."""
    job_type()
    numbers = jobs(300)

    shares = racers([lambda n=n: drained(Holder(f"host:{n}", "host")) for n in range(8)]).results

    held = [job.id for share in shares for job in share]
    assert sorted(held) == numbers
    assert {job.attempts for job in Job.objects.all()} == {1}


def test_workers_whose_slices_change_meanwhile_hold_each_job_once(racers: Racers) -> None:
    """S4.11: the map is a preference, so no two views of it hold a job twice or leave one."""
    job_type()
    workers = [Holder(f"host:{n}", "host") for n in range(6)]
    share(*workers[:3])
    numbers = [number for shard in range(300) for number in jobs(1, shard=shard * 3)]

    def change() -> list[HeldJob]:
        for n in range(40):
            share(*workers[n % 5 :])
        return []

    shares = racers([change, *(lambda by=by: drained(by) for by in workers)]).results

    assert sorted(job.id for mine in shares for job in mine) == numbers
    assert {job.attempts for job in Job.objects.all()} == {1}


def test_report_rescue_and_forced_cancel_have_one_winner(racers: Racers) -> None:
    """I31: losers change nothing, and a yes is never undone."""
    job_type(lease_seconds=1, max_processing_seconds=60)
    [number] = jobs(1)
    [held] = take()
    Job.objects.filter(pk=number).update(lease_until=clock.now() - timedelta(seconds=1))

    def cancel() -> bool:
        try:
            control.cancel(job=row(number), actor="admin:olga", reason="stop", force=True)
        except Conflict:
            return False
        return True

    reported, rescued, cancelled = racers(
        [
            lambda: end(held) == "succeeded",
            lambda: rescue_due(until=clock.now() + timedelta(minutes=5)),
            cancel,
        ]
    ).results

    job = row(number)
    # A rescued job waits again and may then be cancelled.
    assert (reported, bool(rescued), cancelled).count(True) == (2 if rescued and cancelled else 1)
    assert job.status == ("succeeded" if reported else "cancelled" if cancelled else "ready")
    assert [event for event in events_of(number) if event != "stale"] == [
        event
        for event, won in (("succeeded", reported), ("lost", rescued), ("cancelled", cancelled))
        if won
    ]


def test_stale_report_from_many_connections_is_kept_once(racers: Racers) -> None:
    """I30."""
    job_type(max_attempts=9)
    [number] = jobs(1)
    [held] = take()
    Job.objects.filter(pk=number).update(lease_until=clock.now() - timedelta(seconds=1))
    rescue_due(until=clock.now() + timedelta(minutes=5))
    take()
    Job.objects.filter(pk=number).update(holds=9)

    answers = racers([lambda: end(held)] * 6).results

    assert set(answers) == {"lease_lost"}
    assert events_of(number) == ["lost", "stale"]


def test_settling_and_holding_a_type_with_a_breaker_never_deadlocks(racers: Racers) -> None:
    job_type(breaker_enabled=True, breaker_min_calls=10_000)
    jobs(400)

    def work(name: str) -> int:
        done = 0
        while held := take(5, by=Holder(name, "host")):
            for job in held:
                how = "succeeded" if job.id % 3 else "failed"
                done += end(job, how, retry="never") == how
        return done

    done = racers([lambda n=n: work(f"host:{n}") for n in range(6)]).results

    assert sum(done) == 400
    assert not Job.objects.filter(status__in=["ready", "running"]).exists()


LOCK_WAIT_TIMEOUT = 1205


@pytest.fixture(autouse=True)
def mail(transactional_db: None) -> None:
    factories.job_type("mail")
    # As the migration leaves them; between these tests all tables are emptied.
    UniqueLock.objects.bulk_create(
        [UniqueLock(shard=shard) for shard in range(UNIQUE_LOCKS)], ignore_conflicts=True
    )


def test_the_same_inside_callers_transactions(racers: Any) -> None:
    """I25, I35: a plain atomic block sees no error, and all else it wrote is committed."""

    def business(number: int) -> int:
        with transaction.atomic():
            submit("mail", key=f"before-{number}")
            answer = submit("mail", key="order-1", unique=True)
            submit("mail", key=f"after-{number}")
        return answer.id

    race = racers([lambda n=n: business(n) for n in range(24)])

    assert len(set(race.results)) == 1
    keys = Counter(Job.objects.values_list("key", flat=True))
    assert keys["order-1"] == 1
    assert len(keys) == 49
    assert set(keys.values()) == {1}


def test_batches_of_the_same_twins_in_any_order(racers: Any) -> None:
    """I35: no deadlock comes through, and every batch knows every id."""
    keys = [f"order-{n:02}" for n in range(50)]

    def batch(offset: int) -> dict[str, int]:
        rotated = keys[offset:] + keys[:offset]
        if offset % 2:
            rotated.reverse()
        with transaction.atomic():
            answers = submit_many([Submission(type="mail", key=k, unique=True) for k in rotated])
        return {key: answer.id for key, answer in zip(rotated, answers, strict=True)}

    race = racers([lambda t=t: batch(t) for t in range(12)])

    rows = dict(Job.objects.values_list("key", "pk"))
    assert len(rows) == Job.objects.count() == 50
    assert all(result == rows for result in race.results)


def _shard(key: str) -> int:
    return crc32(unique_key("mail", key).encode()) % UNIQUE_LOCKS


def _waits(submission: Submission) -> bool:
    """Whether another connection would have to wait to submit this now."""
    waited: list[bool] = []

    def other() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET innodb_lock_wait_timeout = 1")
            with transaction.atomic():
                submit_many([submission])
            waited.append(False)
        except OperationalError as error:
            assert error.args[0] == LOCK_WAIT_TIMEOUT
            waited.append(True)
        finally:
            connections.close_all()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(30)
    return waited[0]


def test_unique_key_is_locked_until_its_transaction_ends_with_few_others() -> None:
    """I35: what the README says of who waits for an open transaction, and who does not."""
    # Keys that no other test has used: where InnoDB has not purged a deleted one yet, a new one
    # locks its neighbours in the index, too.
    keys = [f"kept-{n}" for n in range(20_000)]
    own = keys[0]
    neighbour = next(key for key in keys[1:] if _shard(key) == _shard(own))
    others = [key for key in keys[1:200] if _shard(key) != _shard(own)][:3]
    with transaction.atomic():
        submit("mail", key=own, unique=True)

        assert _waits(Submission(type="mail", key=own, unique=True))
        assert _waits(Submission(type="mail", key=neighbour, unique=True))
        for key in others:
            assert not _waits(Submission(type="mail", key=key, unique=True))
        assert not _waits(Submission(type="mail", key=own))
        assert not _waits(Submission(type="mail"))

    assert not _waits(Submission(type="mail", key=own, unique=True))
    assert not _waits(Submission(type="mail", key=neighbour, unique=True))
    assert Job.objects.filter(key=own, unique_key__isnull=False).count() == 1
    # A thousand keys take more than half of the locks.
    assert len({_shard(key) for key in keys[:1000]}) > UNIQUE_LOCKS / 2


def test_key_of_one_who_rolls_back_goes_to_one_who_waits() -> None:
    """I25, I35: three wait for a submission that is taken back; one of them makes the job."""
    inserted, outcomes = threading.Event(), []

    def first() -> None:
        try:
            with transaction.atomic():
                submit("mail", key="order-1", unique=True)
                inserted.set()
                time.sleep(0.5)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        finally:
            connections.close_all()

    def other() -> None:
        try:
            inserted.wait(10)
            with transaction.atomic():
                outcomes.append(submit("mail", key="order-1", unique=True))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=each) for each in (first, other, other, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    job = Job.objects.get()
    assert {answer.id for answer in outcomes} == {job.pk}
    assert sorted(answer.created for answer in outcomes) == [False, False, True]


@pytest.mark.parametrize("status", ["ready", "failed"])
def test_two_operators_move_it_once(racers: Any, status: str) -> None:
    """I26, I31, I56: one wins, the other reads why not; one entry, one version."""
    ended = {"status": status, "attempts": 3} if status == "failed" else {}
    job = factories.job(into={**ended, "version": 5})
    act = control.retry if status == "failed" else control.cancel

    def operate() -> str:
        try:
            return act(job=job, actor="admin:olga", reason="Asked").status
        except Conflict as error:
            return error.code

    race = racers([operate] * 8)

    results = Counter(race.results)
    assert results["conflict"] == 7
    assert JournalEntry.objects.timeline("job", job.pk).count() == 1
    assert Job.objects.get().version == 6


def test_retry_and_submit_of_one_key_leave_one_open_job(racers: Any) -> None:
    """I35: the second caller gets the job of the first."""
    for number in range(10):
        key = f"order-{number}"
        job = factories.job(
            key=key, unique=True, into={"status": "failed", "unique_key": None, "attempts": 3}
        )

        def retry(job: Job = job) -> Any:
            try:
                return control.retry(job=job, actor="admin:olga", reason="Asked").pk
            except Conflict:
                return None

        race = racers([retry, lambda key=key: submit("mail", key=key, unique=True)])

        open_ones = Job.objects.filter(key=key, status="ready")
        assert open_ones.count() == 1
        retried, submitted = race.results
        assert (retried is None) == submitted.created
        assert submitted.id == open_ones.get().pk


def test_edits_of_one_version_save_once(racers: Any) -> None:
    """I57: eight forms of the same version; one is kept whole, the others conflict."""
    job = factories.job()

    def edit(priority: int) -> int | None:
        try:
            changes = {"priority": priority, "context": {"by": priority}}
            control.edit(job=job, version=1, changes=changes, actor="admin:o", reason="Asked")
        except Conflict:
            return None
        return priority

    race = racers([lambda p=p: edit(p) for p in range(1, 9)])

    [kept] = [each for each in race.results if each is not None]
    after = Job.objects.get()
    assert (after.priority, after.context, after.version) == (kept, {"by": kept}, 2)


def test_replacing_submissions_and_a_hold_lose_nothing(racers: Any) -> None:
    """Of two that replace one is last; a worker gets the whole of what was there when it held."""
    job_type()
    for number in range(10):
        named: dict[str, Any] = {"key": f"k{number}", "unique": True, "on_twin": "replace"}
        first = submit("mail", {"by": 0}, **named)

        def replaced(by: int, named: Any = named) -> Any:
            return submit("mail", {"by": by}, priority=by, **named)

        race = racers([lambda: replaced(1), lambda: replaced(2), take])

        *answers, held = race.results
        twin = row(first.id)
        done = [by for by, answer in enumerate(answers, 1) if answer.twin == "replaced"]
        assert {answer.id for answer in answers} == {first.id}
        assert twin.version == 1 + len(held) + len(done)
        assert twin.priority == twin.context["by"]
        assert twin.context["by"] in (done or [0])
        for each in held:
            assert each.context == twin.context
        if not held:
            held = take()
        assert [end(each) for each in held] == ["succeeded"]


def test_key_is_kept_or_free_but_never_lost_while_it_ends(racers: Any) -> None:
    """A submission meets the job as it runs or as it keeps its key, not in between."""
    job_type()
    for number in range(10):
        named: dict[str, Any] = {"key": f"k{number}", "unique": True, "unique_for": 60}
        first = submit("mail", **named)
        [held] = [each for each in take() if each.id == first.id]

        race = racers([lambda held=held: end(held), lambda named=named: submit("mail", **named)])

        ended, answer = race.results
        assert (ended, answer.id, answer.twin) == ("succeeded", first.id, "returned")
        assert row(first.id).unique_key == unique_key("mail", f"k{number}")
        # Once the time is over, one of those who want the key at once gets it.
        over = clock.now() - timedelta(seconds=61)
        Job.objects.filter(pk=first.id).update(finished_at=over)
        race = racers([lambda named=named: submit("mail", **named)] * 4)
        assert sorted(each.created for each in race.results) == [False, False, False, True]
        assert len({each.id for each in race.results}) == 1
