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
