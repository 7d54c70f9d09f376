"""Limits by key while many submit, work and cancel at once, and while they are killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection, transaction

from apps.common import clock
from apps.common.db import fetch, table
from apps.common.errors import Conflict
from apps.jobs.models import Job
from apps.jobs.services import admission, control
from apps.jobs.services.hold import Holder
from apps.jobs.services.submit import Submission, submit, submit_many
from tests.jobs import end, job_type, row, take
from tests.kills import kills
from tests.races import Race

Racers = Callable[[Sequence[Callable[[], Any]]], Race]
LIMIT = 2


def most() -> int:
    """The most jobs of one key that have a place at this moment."""
    rows = fetch(
        f"SELECT COUNT(*) FROM {table(Job)} WHERE status IN ('ready', 'running') GROUP BY limit_id"
    )
    return max((count for (count,) in rows), default=0)


def worked_off(by: Holder) -> int:
    done = 0
    while held := take(20, by=by):
        done += [end(job) for job in held].count("succeeded")
    return done


def all_done() -> None:
    while Job.objects.filter(status="blocked").exists():
        admission.sweep(clock.now())
        assert worked_off(Holder("last", "last")) > 0
    worked_off(Holder("last", "last"))


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_no_key_ever_has_more_places_than_its_limit(racers: Racers) -> None:
    """Several submissions of many keys each in one transaction, workers, and an operator."""
    job_type(limit_by="context.customer", limit_running=LIMIT)
    chance = random.Random(7)
    over = threading.Event()
    seen: list[int] = []

    def submitted(seed: int) -> None:
        mine = random.Random(seed)
        for _ in range(15):
            with transaction.atomic():
                for _ in range(2):
                    submit_many(
                        [Submission("mail", {"customer": mine.randrange(12)}) for _ in range(8)]
                    )

    def operated() -> None:
        for _ in range(40):
            for number in Job.objects.order_by("?").values_list("pk", flat=True)[:1]:
                job = row(number)
                act: Any = chance.choice([control.cancel, control.retry, control.run_now])
                # It may be in another state by then.
                with suppress(Conflict):
                    act(job=job, actor="ann", reason="a try")

    def watched() -> None:
        while not over.is_set():
            seen.append(most())

    def raced() -> list[Any]:
        watch = threading.Thread(target=lambda: (watched(), connection.close()))
        watch.start()
        try:
            return racers(
                [
                    *(lambda n=n: submitted(n) for n in range(3)),
                    *(lambda n=n: worked_off(Holder(f"w{n}", "w")) for n in range(3)),
                    operated,
                ]
            ).results
        finally:
            over.set()
            watch.join()

    raced()
    all_done()

    assert max(seen) <= LIMIT
    assert not Job.objects.filter(status__in=["blocked", "ready", "running"]).exists()
    assert Job.objects.count() == 3 * 15 * 2 * 8


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_of_submissions_at_the_same_instant_one_gets_the_only_place(racers: Racers) -> None:
    """Each sees another one first: the latest has the highest priority."""
    job_type(limit_by="key", limit_running=1)
    keys = [f"k{n}" for n in range(40)]
    submit_many([Submission("mail", {}, key=key) for key in keys])
    assert worked_off(Holder("w", "w")) == len(keys)

    def submitted(priority: int) -> int:
        return len([submit("mail", {}, key=key, priority=priority) for key in keys])

    assert sum(racers([lambda n=n: submitted(n) for n in range(6)]).results) == 6 * len(keys)

    assert most() == 1
    assert Job.objects.filter(status="ready").count() == 40


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_process_that_dies_at_any_statement_leaves_no_job_behind() -> None:
    """Of a submission and its look, and of an end that gives a place to the next."""
    job_type(limit_by="key", limit_running=1)

    def work() -> None:
        submit_many([Submission("mail", {}, key="k"), Submission("mail", {}, key="k")])
        for job in take(1):
            end(job)

    for _ in kills(work, more_than=8):
        admission.sweep(clock.now())
        places = Job.objects.filter(status__in=["ready", "running"]).count()
        assert places == (1 if Job.objects.exclude(status="succeeded").exists() else 0)
        # What a dead worker holds is rescued elsewhere; here it ends.
        Job.objects.filter(status="running").update(status="succeeded", finished_at=clock.now())
