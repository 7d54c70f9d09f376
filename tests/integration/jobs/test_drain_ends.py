"""S1.5, S1.9, F6: whatever a handler ends in becomes the outcome of its job and of no other, though
the database goes away."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import (
    DEFAULT_DB_ALIAS,
    DataError,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)

from apps.jobs.handlers import Cancelled, Fail, NextStage, Retry
from apps.jobs.models import Job
from apps.jobs.runner import drain as drain_module
from apps.jobs.runner import outbox
from apps.jobs.runner import process as process_module
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Process
from apps.jobs.runner.record import read_all
from apps.jobs.services import claim
from tests.jobs import drained, events_of, jobs, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]

Make = Callable[..., Any]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


RAISED: tuple[tuple[BaseException, str, str], ...] = (
    (ValueError("no such address"), "scheduled", "ValueError: no such address"),
    (Retry(5, "busy"), "scheduled", "busy"),
    (Retry(), "scheduled", "the handler asked for another try"),
    (Fail("unknown customer"), "failed", "unknown customer"),
    (Cancelled(), "cancelled", "cancelled as asked for"),
    (SystemExit(3), "scheduled", "SystemExit: 3"),
    (KeyboardInterrupt(), "scheduled", "KeyboardInterrupt"),
    (Unprintable(), "scheduled", f"{__name__}.Unprintable: <exception str() failed>"),
    (ValueError("half \ud800 and \x00"), "scheduled", "ValueError: half ? and \ufffd"),
)
RETURNED: tuple[tuple[Any, str, str], ...] = (
    (object(), "failed", "object is not a JSON value."),
    ("x" * 300_000, "failed", "the limit is 262144"),
    (float("nan"), "failed", "NaN and Infinity are not JSON."),
    (NextStage("b"), "failed", "'b' is no stage"),
    (NextStage("cut", priority=101), "failed", "101 is no priority"),
    (NextStage("cut", context=["raw"]), "failed", "context must be a JSON object"),
    # A wait that is no number fails its attempt.
    (NextStage("cut", after="soon"), "scheduled", "ValueError: could not convert string to float"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("end", "status", "said"), [*RAISED, *RETURNED], ids=lambda end: type(end).__name__
)
def test_every_end_of_a_handler_becomes_an_outcome_of_its_job_alone(
    handle: Make, process: Process, end: Any, status: str, said: str
) -> None:
    def mail(context: Any) -> Any:
        if context["position"] != 1:
            return None
        if isinstance(end, BaseException):
            raise end
        return end

    handle("mail", mail, stages=["cut"])
    numbers = jobs(3)

    drained(process)

    assert [row(number).status for number in numbers] == ["succeeded", status, "succeeded"]
    assert said in row(numbers[1]).memo
    assert len(events_of(numbers[1])) == 1


def test_outcome_that_the_database_does_not_take_fails_its_job_and_not_the_drain(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated without end, it would block the lane until the deadline of its job."""

    def choosy(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*, outcomes: Any, **others: Any) -> Any:
            if any(outcome.result == "odd" for outcome in outcomes):
                raise DataError(1264, "Out of range value")
            return work(outcomes=outcomes, **others)

        return run

    for name in ("settle", "exchange"):
        monkeypatch.setattr(outbox, name, choosy(getattr(outbox, name)))
    monkeypatch.setattr(drain_module, "_AWAY_SECONDS", 0.0)
    handle("mail", lambda context: "odd" if context["position"] == 1 else "even")
    numbers = jobs(3)
    drain = Drain(process, "fast")
    seen = iter([None] * 5)
    monkeypatch.setattr(drain, "_database_is_away", lambda error: next(seen))

    drain.run(wait=False)

    assert [row(number).status for number in numbers] == ["succeeded", "failed", "succeeded"]
    assert "Out of range value" in row(numbers[1]).memo


@pytest.fixture
def second() -> Iterator[None]:
    """A database beside the platform's own, as a deployer may configure for handlers."""
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {}}
    connections.settings["second"] = {**connections.settings[DEFAULT_DB_ALIAS], **own}
    yield
    del connections.settings["second"]


@pytest.mark.usefixtures("second")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("alias", [DEFAULT_DB_ALIAS, "second"])
def test_transaction_that_a_handler_leaves_open_is_rolled_back(
    handle: Make, process: Process, caplog: pytest.LogCaptureFixture, alias: str
) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: transaction.atomic(using=alias).__enter__(),
        lambda: transaction.set_autocommit(False, using=alias),
    ]
    seen: list[bool] = []

    def leaves(context: Any) -> None:
        database = connections[alias]
        if database.connection is None:
            database.connect()
        seen.append(database.in_atomic_block or not database.autocommit)
        ways[len(seen) - 1]()

    handle("mail", leaves)
    numbers = jobs(2)

    drained(process)

    assert seen == [False, False]
    assert [row(number).status for number in numbers] == ["succeeded"] * 2
    assert caplog.text.count(f"left a transaction open on {alias}") == 2


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
