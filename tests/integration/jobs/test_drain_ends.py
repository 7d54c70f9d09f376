"""S1.5, S1.9: whatever a handler ends in becomes the outcome of its job, and of no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, DataError, connections, transaction

from apps.jobs.handlers import Cancelled, Fail, NextStage, Retry
from apps.jobs.runner import drain as drain_module
from apps.jobs.runner import outbox
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Process
from tests.jobs import drained, events_of, jobs, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]

Make = Callable[..., Any]


def _raise(error: BaseException) -> Callable[[Any], Any]:
    def fails(context: Any) -> Any:
        raise error

    return fails


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValueError("no such address"), "scheduled", "ValueError: no such address"),
        (Retry(5, "busy"), "scheduled", "busy"),
        (Retry(), "scheduled", "the handler asked for another try"),
        (Fail("unknown customer"), "failed", "unknown customer"),
        (Cancelled(), "cancelled", "cancelled as asked for"),
        (SystemExit(3), "scheduled", "SystemExit: 3"),
        (KeyboardInterrupt(), "scheduled", "KeyboardInterrupt"),
        (Unprintable(), "scheduled", f"{__name__}.Unprintable: <exception str() failed>"),
        (ValueError("half \ud800 and \x00"), "scheduled", "ValueError: half ? and \ufffd"),
    ],
    ids=repr,
)
def test_every_end_of_a_handler_becomes_an_outcome(
    handle: Make, process: Process, error: BaseException, status: str, said: str
) -> None:
    handle("mail", _raise(error))
    handle("other", lambda context: None)
    numbers = [*jobs(1), *jobs(2, "other")]

    drained(process)

    assert [row(number).status for number in numbers] == [status, "succeeded", "succeeded"]
    assert row(numbers[0]).memo == said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (object(), "object is not a JSON value."),
        ("x" * 300_000, "the limit is 262144"),
        (float("nan"), "NaN and Infinity are not JSON."),
        (NextStage("b"), "'b' is no stage"),
        (NextStage("cut", priority=101), "101 is no priority"),
        (NextStage("cut", context=["raw"]), "context must be a JSON object"),
    ],
    ids=["object", "large", "nan", "stage", "priority", "context"],
)
def test_result_that_cannot_be_kept_fails_its_job_alone(
    handle: Make, process: Process, result: Any, said: str
) -> None:
    handle("mail", lambda context: result if context["position"] == 1 else None, stages=["cut"])
    numbers = jobs(3)

    drained(process)

    assert [row(number).status for number in numbers] == ["succeeded", "failed", "succeeded"]
    assert said in row(numbers[1]).memo
    assert events_of(numbers[1]) == ["failed"]


def test_wait_that_is_no_number_fails_its_attempt_and_not_the_drain(
    handle: Make, process: Process
) -> None:
    last = NextStage("cut", after="soon")  # type: ignore[arg-type]
    handle("mail", lambda context: last if context["position"] == 1 else None, stages=["cut"])
    numbers = jobs(3)

    drained(process)

    assert [row(number).status for number in numbers] == ["succeeded", "scheduled", "succeeded"]
    assert row(numbers[1]).memo == "ValueError: could not convert string to float: 'soon'"


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
    handle: Make,
    process: Process,
    caplog: pytest.LogCaptureFixture,
    alias: str,
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
