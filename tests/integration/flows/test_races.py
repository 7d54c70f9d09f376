"""Runs that several look at, work on and cancel at the same instant: nothing twice, no deadlock."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from apps.common.errors import Conflict
from apps.flows.models import FlowStep
from apps.flows.services import control
from apps.flows.services.advance import advance
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.services.hold import Holder
from tests.flows import OLGA, events, job, jobs, run_of, started, states, step_of, wait
from tests.jobs import end, job_type, take

pytestmark = [
    pytest.mark.mariadb,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_deadlock"),
]


@pytest.fixture
def no_deadlock(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    job_type("mail", max_attempts=1)
    with caplog.at_level("INFO", logger="apps.common.db"):
        yield
    assert not [line for line in caplog.messages if "lock lost" in line]


def test_looks_at_once_begin_and_end_each_step_once(racers: Any) -> None:
    for _ in range(5):
        run = started(job("a"), job("b"), jobs("many", [1, 2, 3], needs=["a", "b"]))
        Job.objects.filter(part_of__isnull=False).update(
            status="succeeded", finished_at=run_of(run).created_at
        )
        assert not racers([lambda run=run: advance(run)] * 6).errors
        assert states(run) == {"a": "succeeded", "b": "succeeded", "many": "active"}
        assert Job.objects.filter(part_of=step_of(run, "many").pk).count() == 3
        assert {*Counter(events(run)).values()} == {1}


def test_starts_of_one_key_at_once_make_one_run(racers: Any) -> None:
    definition = {"steps": [job("a")]}
    made = racers([lambda: start("", definition=definition, key="k")] * 8).results
    assert len({each.id for each in made}) == 1 and [each.created for each in made].count(True) == 1
    assert Job.objects.count() == 1


def test_cancel_while_a_step_of_many_begins(racers: Any) -> None:
    """All of its jobs are cancelled, or none is made."""

    def cancelled(run: int) -> None:
        control.cancel(run=run_of(run), **OLGA)

    for _ in range(6):
        run = started(wait("gate"), jobs("many", [*range(1200)], needs=["gate"]))

        def finished(run: int = run) -> None:
            # It may be cancelled by then.
            with suppress(Conflict):
                control.finish(run=run_of(run), step="gate", **OLGA)

        assert not racers([finished, lambda run=run: cancelled(run)]).errors
        while advance(run):
            pass
        assert run_of(run).status == "cancelled"
        counts = Counter(
            Job.objects.filter(part_of=step_of(run, "many").pk).values_list("status", flat=True)
        )
        assert counts in ({}, {"cancelled": 1200})


def test_retries_beside_workers(heard: None, racers: Any) -> None:
    """Whatever fails is tried again until the run has succeeded; it ends as often as it began."""
    run = started(jobs("many", [*range(60)]), job("last", needs=["many"]))
    chance = random.Random(7)

    def is_over() -> bool:
        return run_of(run).status == "succeeded"

    def worked(name: str) -> None:
        while not is_over():
            for held in take(7, by=Holder(name, "host")):
                end(held, chance.choice(["succeeded", "failed", "failed"]))

    def retried() -> None:
        while not is_over():
            with suppress(Conflict):
                control.retry(run=run_of(run), **OLGA)

    assert not racers([*(lambda n=n: worked(f"host:{n}") for n in range(3)), retried]).errors
    assert {*Job.objects.values_list("status", flat=True)} == {"succeeded"}
    assert Job.objects.count() == 61
    assert not FlowStep.objects.filter(look_at__isnull=False).exists()
    seen = Counter(events(run))
    for name in ("many", "last"):
        begun = seen[f"step_active {name}"] + seen[f"reopened {name}"]
        assert begun == seen[f"step_ended {name}"]
