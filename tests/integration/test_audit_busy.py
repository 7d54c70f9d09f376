"""The audit of a system under load: what is under way is no breach."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from apps.common import audit as auditing
from apps.common import clock
from apps.common.errors import PlatformError
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services.pull import Nothing
from apps.jobs.models import Job
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services import control
from apps.jobs.services.hold import Holder, hold
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from taskplatform.audit import CHECKS, broken_lines
from tests import callback, factories
from tests.callback import take_next

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

BUSY_SECONDS = 6.0
# So long at most, until everybody has had something to do.
MAX_BUSY_SECONDS = 40.0
ENDS = ("succeeded", "failed")
JOB_ENDS = ("succeeded", "failed", "released", "cancelled", "nothing")


def test_audits_of_a_busy_system_find_nothing(
    racers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I5, I17, I26–I29, I35, I39, I53: not even before the second check."""
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)
    names = [f"uid_{n}" for n in range(6)]
    everybody = factories.group("gid_all", names)
    for _ in range(3):
        factories.once_task(
            everybody,
            mode="blocking",
            dispatch_times=10**6,
            on_failure="retry_same",
            lease_seconds=10,
        )
    factories.job_type(lease_seconds=1, retry_delay_seconds=0, retry_jitter=0)
    over = threading.Event()
    busy: set[str] = set()
    first_breaches: list[str] = []

    def pull(name: str, turn: int) -> int:
        person = Executor.objects.get(name=name)
        done = 0
        while not over.is_set():
            taken = take_next(person)
            if isinstance(taken, Nothing):
                continue
            # Given back, a task is not to be had again for its lease.
            end = "released" if done % 50 == 49 else ENDS[(turn + done) % 2]
            if end == "released":
                callback.release(executor=person, number=taken.pk)
            else:
                callback.call_back(executor=person, number=taken.pk, outcome=end)
            done += 1
            busy.add(name)
        return done

    def work(name: str) -> int:
        done = 0
        while not over.is_set():
            held = hold(holder=Holder(name, "host"), types=["mail"], limit=10)
            ends = [(job, JOB_ENDS[(job.id >> 3) % 5]) for job in held]
            settle(
                outcomes=[
                    Outcome(id=job.id, token=job.token, end=end)
                    for job, end in ends
                    if end != "nothing"
                ]
            )
            done += len(held)
            busy.update(name for _ in held)
        return done

    def send() -> int:
        number = 0
        while not over.is_set():
            number += 1
            made = submit("mail", key=f"k{number % 40}", unique=bool(number % 2))
            if number % 5 == 0:
                try:
                    control.cancel(
                        job=Job.objects.get(pk=made.id), actor="admin:olga", reason="no", force=True
                    )
                except PlatformError:
                    pass
        return number

    def rescue() -> int:
        found = 0
        while not over.is_set():
            found += rescue_due(until=clock.now() + timedelta(seconds=1))
            busy.update(["rescue"] * bool(found))
            time.sleep(0.05)
        return found

    def audit() -> int:
        began = time.monotonic()
        rounds = 0
        try:
            while (passed := time.monotonic() - began) < BUSY_SECONDS or (
                passed < MAX_BUSY_SECONDS and busy < everybody_busy
            ):
                for check in CHECKS:
                    first_breaches.extend(map(str, check.run(auditing.RECENT).breaches))
                rounds += 1
        finally:
            over.set()
        return rounds

    everybody_busy = {*names, "w:1", "w:2", "rescue"}
    calls = [partial(pull, name, turn) for turn, name in enumerate(names)]
    calls += [partial(work, "w:1"), partial(work, "w:2"), send, send, rescue, audit]
    done = racers(calls).results
    assert all(done), done
    assert first_breaches == []
    assert list(broken_lines(auditing.audit(CHECKS))) == []
    assert Stock.objects.exists() and Dispatch.objects.exists()
