"""Limits by key while many submit, work and cancel at once, and while they are killed."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from apps.common import clock
from apps.common.db import fetch, table, transactional
from apps.common.errors import Conflict
from apps.jobs.models import Job, KeyState
from apps.jobs.services import admission, control, types
from apps.jobs.services.hold import Holder
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.submit import Submission, submit, submit_many
from tests.auditing import audit
from tests.jobs import end, job_type, row, take
from tests.kills import Diary, die, kills, play
from tests.races import Race

Racers = Callable[[Sequence[Callable[[], Any]]], Race]
LIMIT = 2
# Three submit fifteen times two submissions of eight.
JOBS = 3 * 15 * 2 * 8


def places() -> dict[int, int]:
    """How many jobs of each key have a place at this moment."""
    return dict(
        fetch(
            f"SELECT limit_id, COUNT(*) FROM {table(Job)} WHERE status IN ('ready', 'running') "
            "GROUP BY limit_id"
        )
    )


def most() -> int:
    """The most jobs of one key that have a place at this moment."""
    return max(places().values(), default=0)


def operate(chance: random.Random) -> None:
    """An act of a person on a job."""
    for number in Job.objects.order_by("?").values_list("pk", flat=True)[:1]:
        act: Any = chance.choice([control.cancel, control.retry, control.run_now])
        # It may be in another state by then.
        with suppress(Conflict):
            act(job=row(number), actor="ann", reason="a try")


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
    """Several submissions of many keys each in one transaction, workers, an operator, and somebody
    who lowers the limit to 1: whoever has a place keeps it, and nobody gets one beside it."""
    job_type(limit_by="context.customer", limit_running=LIMIT)
    chance = random.Random(7)
    over, lowered = threading.Event(), threading.Event()
    seen: list[dict[int, int]] = []
    after: list[dict[int, int]] = []

    def submitted(seed: int) -> None:
        mine = random.Random(seed)
        for n in range(15):
            if n == 10:
                assert lowered.wait(60)
            with transaction.atomic():
                for _ in range(2):
                    submit_many(
                        [Submission("mail", {"customer": mine.randrange(12)}) for _ in range(8)]
                    )

    def operated() -> None:
        for _ in range(40):
            operate(chance)

    def worked(by: Holder) -> None:
        while not lowered.is_set():
            for held in take(20, by=by):
                end(held)

    def lower() -> None:
        while Job.objects.count() < JOBS // 3:
            pass
        types.update_type(job_type=types.find("mail"), changes={"limit_running": 1}, actor="ann")
        # Whoever has looked with the limit of before is done: this locks all keys.
        admission.admit(dict(KeyState.objects.values_list("limit_id", "type")))
        lowered.set()

    def watched() -> None:
        while not over.is_set():
            (after if lowered.is_set() else seen).append(places())

    watch = threading.Thread(target=lambda: (watched(), connection.close()))
    watch.start()
    try:
        racers(
            [
                *(lambda n=n: submitted(n) for n in range(3)),
                *(lambda n=n: worked(Holder(f"w{n}", "w")) for n in range(3)),
                operated,
                lower,
            ]
        )
        assert Job.objects.filter(status="blocked").exists()
        for held in take(JOBS):
            end(held)
        assert most() == 1
        all_done()
    finally:
        over.set()
        watch.join()

    assert max(count for found in seen for count in found.values()) == LIMIT
    assert after
    for before, then in pairwise(after):
        assert all(count <= max(1, before.get(key, 0)) for key, count in then.items())
    assert not Job.objects.filter(status__in=["blocked", "ready", "running"]).exists()
    assert Job.objects.count() == JOBS


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


@pytest.mark.long
@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_limits_hold_while_processes_die(tmp_path: Path) -> None:
    """Workers, an operator, the sweep, and submitters, one of ten of which dies between its commit
    and its look; the limit is raised meanwhile."""
    seconds, keys = 15.0, 60
    job_type(
        limit_by="context.customer",
        limit_running=LIMIT,
        lease_seconds=1,
        max_attempts=3,
        retry_delay_seconds=0,
    )
    diary = Diary(tmp_path / "diary")
    since = time.monotonic()

    def has_time() -> bool:
        time.sleep(0.02)
        return time.monotonic() < since + seconds

    # Its transaction may be the one that a deadlock ends.
    @transactional
    def submit_together(many: list[int]) -> None:
        if random.random() < 0.1:
            transaction.on_commit(die)
        submit_many([Submission("mail", {"customer": each}) for each in many])

    def submitted() -> None:
        if not has_time():
            return
        submit_together(random.choices(range(keys), k=10))

    def worked() -> None:
        held = take(20, by=Holder(f"w:{os.getpid()}", "w"))
        for job in held:
            end(job, random.choice(["succeeded"] * 9 + ["failed"]))
        if not held:
            time.sleep(0.02)

    def operated() -> None:
        if has_time():
            operate(random.Random())

    def swept() -> None:
        now = clock.now()
        promote_due(now=now)
        rescue_due(until=now + timedelta(seconds=1))
        admission.sweep(now)
        time.sleep(0.2)

    limit = LIMIT

    def is_over() -> bool:
        nonlocal limit
        if limit == LIMIT and time.monotonic() > since + seconds / 2:
            limit = LIMIT + 1
            changes = {"limit_running": limit}
            types.update_type(job_type=types.find("mail"), changes=changes, actor="ann")
        diary.note("seen", most=most(), limit=limit)
        return not Job.objects.filter(finished_at=None).exists()

    submitters, workers = dict.fromkeys("ab", submitted), dict.fromkeys("cde", worked)
    play(
        {**submitters, **workers, "operator": operated, "sweep": swept},
        diary,
        seconds=seconds,
        is_over=is_over,
    )

    assert time.monotonic() < since + 3 * seconds, "the rest took too long"
    seen = diary.notes("seen")
    assert {each["limit"] for each in seen if each["most"] == each["limit"]} == {2, 3}
    assert all(each["most"] <= each["limit"] for each in seen)
    assert not diary.notes("error")
    assert audit()[0] == 0, audit()[1]
    assert len(diary.notes("kill")) > seconds
