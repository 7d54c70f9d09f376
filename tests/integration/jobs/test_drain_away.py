"""F6: the database goes away under a drain, and comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from apps.jobs.models import Job
from apps.jobs.runner import drain as drain_module
from apps.jobs.runner import outbox
from apps.jobs.runner import process as process_module
from apps.jobs.runner.process import Process
from apps.jobs.runner.record import read_all
from apps.jobs.services import claim
from tests.jobs import drained, events_of, jobs, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]

Make = Callable[..., Any]


def test_what_has_ended_is_on_record_until_it_is_settled(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the database fails, before or after it did what it was asked for: a kill at
    that moment costs no job its result."""
    monkeypatch.setattr(drain_module, "_AWAY_SECONDS", 0.0)
    chance, failures, ran, unknown = random.Random(8), [0], set[int](), set[int]()

    def check() -> None:
        """What the rescue would find now."""
        records = read_all()
        for job in Job.objects.filter(pk__in=ran, status="running"):
            seen = records.get(job.lease_token, {}).get(job.pk)
            if not (seen and seen.outcome and seen.outcome.end == "succeeded"):
                unknown.add(job.pk)

    def flaky(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(**arguments: Any) -> Any:
            check()
            fails = chance.choice(("before", "after", "", "")) if ran else ""
            answer = None if fails == "before" else work(**arguments)
            check()
            failures[0] += bool(fails)
            if fails:
                raise chance.choice([OperationalError(2006, "gone away"), InterfaceError(0, "")])
            return answer

        return run

    for module, name in ((outbox, "settle"), (outbox, "exchange"), (drain_module, "give_back")):
        monkeypatch.setattr(module, name, flaky(getattr(module, name)))
    monkeypatch.setattr(outbox, "MAX_WAIT_SECONDS", 60.0)
    handle("mail", lambda context: ran.add(numbers[context["position"]]), batch_limit=2)
    monkeypatch.setattr(process_module, "UNLIMITED_SECONDS", 0.0)
    numbers = jobs(24)

    for _again in range(9):
        drained(process)

    assert unknown == set()
    assert failures[0] > 10
    ends = [each for number in numbers for each in events_of(number) if each != "released"]
    assert ends == ["succeeded"] * 24


def test_more_results_than_the_database_takes_at_once_are_settled_in_parts(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB closes the connection of a statement that is longer than max_allowed_packet."""
    monkeypatch.setattr(drain_module, "_AWAY_SECONDS", 0.0)
    monkeypatch.setattr(outbox, "MAX_WAIT_SECONDS", 60.0)
    parts = list[int]()

    def narrow(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*, outcomes: Any, **others: Any) -> Any:
            parts.append(len(outcomes))
            if len(outcomes) > 3:
                raise OperationalError(2006, "Server has gone away")
            return work(outcomes=outcomes, **others)

        return run

    for name in ("settle", "exchange"):
        monkeypatch.setattr(outbox, name, narrow(getattr(outbox, name)))
    handle("mail", lambda context: None)
    numbers = jobs(7)

    drained(process)

    assert [events_of(number) for number in numbers] == [["succeeded"]] * 7
    assert parts == [7, 3, 4, 2, 2]


@pytest.mark.parametrize("failures", [1, 3])
def test_job_whose_hold_was_never_answered_is_given_back_and_not_lost(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """F6, I9: what was committed although the connection broke costs no attempt, even the only
    one."""
    run, left = claim.execute_and_fetch, iter(range(failures))

    def broken(*arguments: Any, **named: Any) -> Any:
        rows = run(*arguments, **named)
        for _ in left:
            raise OperationalError(2013, "Lost connection to server during query")
        return rows

    monkeypatch.setattr(claim, "execute_and_fetch", broken)
    monkeypatch.setattr(drain_module, "_AWAY_SECONDS", 0.0)
    handle("mail", lambda context: None, max_attempts=1)
    [number] = jobs(1)

    drained(process)

    job = row(number)
    assert events_of(number) == ["released"] * failures + ["succeeded"]
    assert (job.attempts, job.holds) == (1, failures + 1)


def test_drain_that_begins_while_the_database_is_away_is_not_taken_for_a_live_one(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other would be started in its place, and a stop would wait for it."""

    def away() -> None:
        raise OperationalError(2002, "cannot connect")

    monkeypatch.setattr(process, "beat", away)
    with pytest.raises(OperationalError):
        drained(process)

    assert process.lanes() == {}
