"""The log of a job: what its handler logs is kept while it runs and with its end, and goes with the
job."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from celery import signals
from django.db import OperationalError

from apps.common.logs import TextFormatter
from apps.common.masking import names
from apps.jobs.errors import LeaseLost
from apps.jobs.handlers import Context, Retry
from apps.jobs.models import JobLog
from apps.jobs.rules.job_log import MAX_BYTES, LogLines, line
from apps.jobs.runner import attempt, attempt_log
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Process
from apps.jobs.services import control, job_log, leases
from apps.jobs.services.settle import settle
from apps.jobs.testing import perform
from tests.jobs import drained, end, held_jobs, job_type, jobs, row
from tests.statements import sent_by

pytestmark = pytest.mark.django_db(transaction=True)
logger = logging.getLogger("shop.mail")
Handle = Callable[..., Any]
# Texts that are no texts, and what is kept of them.
HARMLESS = {
    "a\x00b": "a\\x00b",
    "\x1b[2J": "\\x1b[2J",
    # As structlog writes it: the secret is known for one.
    "\x1b[36mpassword\x1b[0m=\x1b[1;35mhunter2\x1b[0m \x9b31mred": "password=•••••• red",
    "10 %\r20 %\r\n": "10 %\n20 %\n",
    "\ud800": "\\ud800",
    "日志\t✓": "日志\t✓",
    str(b"\xff\x00"): "b'\\xff\\x00'",
}


def texts(job: int, **more: Any) -> list[list[str]]:
    """The lines of each attempt."""
    logs = job_log.read(job_log.parts_of(job), **more)
    return [[each.text for each in log.lines] for log in logs]


def left_out(job: int) -> int:
    return sum(log.left_out for log in job_log.read(job_log.parts_of(job)))


def test_what_a_handler_logs_is_kept_by_attempt(handle: Handle, process: Process) -> None:
    is_first = True

    def mail(context: Any, ctx: Context) -> str:
        nonlocal is_first
        logger.debug("not this")
        logger.info("sending to %s", "ann")
        elsewhere = threading.Thread(target=logger.warning, args=("of another thread",))
        elsewhere.start()
        elsewhere.join()
        ctx.log(f"token=abc {ctx.attempt}")
        if is_first:
            is_first = False
            try:
                raise ValueError("mailbox")
            except ValueError:
                logger.exception("not sent")
            raise Retry(0)
        return "sent"

    handle("mail", mail)
    [number] = jobs(1)
    logger.info("before")
    drained(process)
    drained(process)
    logger.info("after")

    first, second = texts(number)
    assert first[:2] == ["INFO shop.mail: sending to ann", "token=•••••• 1"]
    assert first[2].startswith("ERROR shop.mail: not sent\nTraceback")
    assert first[2].endswith("ValueError: mailbox")
    assert second == ["INFO shop.mail: sending to ann", "token=•••••• 2"]
    assert texts(number, masked=False)[1] == ["INFO shop.mail: sending to ann", "token=abc 2"]
    assert texts(number, text="TO ANN") == [first[:1], second[:1]]
    assert texts(number, text="abc") == [[], []], "nobody guesses a secret by search"

    control.retry(job=row(number), actor="admin:1", reason="again")
    drained(process)
    attempts = [(log.hold, log.attempt) for log in job_log.read(job_log.parts_of(number))]
    assert attempts == [(1, 1), (2, 2), (3, 1)], "attempts count anew, and are not mixed up"


def test_lines_are_kept_while_the_handler_runs(handle: Handle, process: Process) -> None:
    seen: list[Any] = []
    drain = Drain(process, "fast")

    def mail(context: Any, ctx: Context) -> None:
        def later() -> None:
            drain.current.log._since -= attempt_log.FLUSH_SECONDS  # type: ignore[union-attr]

        ctx.log("one")
        drain.maintain()
        seen.append(texts(ctx.job_id))
        later()
        drain.maintain()
        ctx.log("two")
        drain.maintain()
        seen.append(texts(ctx.job_id))
        later()
        drain.maintain()
        ctx.log("three")

    handle("mail", mail)
    [number] = jobs(1)
    drain.run(wait=False)

    assert seen == [[], [["one"]]]
    assert texts(number) == [["one", "two", "three"]]
    assert [each.part for each in job_log.parts_of(number)] == [0, 1, 2]


@pytest.mark.both
def test_what_is_sent_again_is_kept_once() -> None:
    [held] = held_jobs(1)
    lines = [line(n, f"line {n}") for n in range(4)]

    def say(*which: int, at: int | None = None) -> None:
        leases.log(job=held.id, token=held.token, added=LogLines([lines[n] for n in which], at))

    for which, at in (((0, 1), 0), ((0, 1), 0), ((0, 1, 2), 0), ((2,), 2)):
        say(*which, at=at)
    outcome = held.ended("succeeded", log=LogLines([lines[2], lines[3]], 2))
    assert settle(outcomes=[outcome]) == settle(outcomes=[outcome]) == ["succeeded"]
    assert texts(held.id) == [["line 0", "line 1", "line 2", "line 3"]]
    with pytest.raises(LeaseLost):
        say(3, at=9)
    assert len(texts(held.id)[0]) == 4


@pytest.mark.both
def test_a_log_has_an_end_and_says_how_much_more_there_was() -> None:
    [held] = held_jobs(1)
    long = "x" * 1000
    for _ in range(2):
        for start in range(0, 100, 10):
            said = LogLines([line(0, f"{n} {long}") for n in range(start, start + 10)])
            leases.log(job=held.id, token=held.token, added=said)
    kept = texts(held.id)[0]
    assert len(kept) == MAX_BYTES // (1000 + 28)
    assert left_out(held.id) == 200 - len(kept)
    assert JobLog.objects.filter(job=held.id).count() == 7, "what is left out makes no rows"
    end(held, log=LogLines([line(0, "x")], None, 5))
    assert left_out(held.id) == 200 - len(kept) + 6
    assert sum(len(each.text.encode()) for each in job_log.parts_of(held.id)) <= MAX_BYTES


def test_what_a_handler_says_too_much_costs_no_memory() -> None:
    [held] = held_jobs(1)
    for number in range(100_000):
        attempt_log.say(held, f"{number} {'x' * 100}")
    assert len(held.log._lines) < 600
    attempt_log.say(held, "x" * 5_000_000)
    end(held, log=attempt_log.rest_of(held))
    assert len(texts(held.id)[0]) + left_out(held.id) == 100_001


@pytest.mark.both
def test_texts_that_are_none_are_made_harmless() -> None:
    [held] = held_jobs(1)
    for text in HARMLESS:
        attempt_log.say(held, text)
    attempt_log.say(held, f"{'word ' * 2000}password={'x' * 9000}")
    end(held, log=attempt_log.rest_of(held))
    *shown, long = texts(held.id)[0]
    assert shown == [*HARMLESS.values()]
    assert len(long) < 8_100
    assert long.endswith("characters left out …")


def test_lines_whose_storing_was_not_answered_are_stored_once(
    handle: Handle, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = Drain(process, "fast")
    store = leases.log

    def unanswered(**named: Any) -> bool:
        store(**named)
        raise OperationalError("the connection was lost")

    def mail(context: Any, ctx: Context) -> None:
        ctx.log("one")
        monkeypatch.setattr(leases, "log", unanswered)
        drain.current.log._since -= attempt_log.FLUSH_SECONDS  # type: ignore[union-attr]
        with pytest.raises(OperationalError):
            drain.maintain()
        monkeypatch.undo()
        ctx.log("two")

    handle("mail", mail)
    [number] = jobs(1)
    drain.run(wait=False)
    assert texts(number) == [["one", "two"]]


@pytest.mark.both
def test_a_log_costs_one_statement_for_all_jobs_of_a_settle_and_later_lines_two() -> None:
    def statements(count: int, log: LogLines | None) -> int:
        held = held_jobs(count)
        outcomes = [each.ended("succeeded", log=log) for each in held]
        return len(sent_by(lambda: settle(outcomes=outcomes)))

    first = LogLines([line(0, "x")], 0, are_first=True)
    further = replace(first, are_first=False)
    without = statements(3, None)
    assert statements(3, first) == statements(30, first) == without + 1
    assert statements(3, further) == statements(30, further) == without + 2


def test_an_interrupted_attempt_and_a_refused_result_keep_their_logs(
    handle: Handle, process: Process
) -> None:
    [held] = held_jobs(1)
    attempt_log.say(held, "so far")
    settle(outcomes=[attempt.interrupted(held, timedelta(0))])
    assert texts(held.id) == [["so far"]]

    def mail(context: Any, ctx: Context) -> Any:
        ctx.log("returns what is no JSON")
        return object()

    handle("mail", mail)
    [number] = jobs(1)
    drained(process)
    assert row(number).status == "failed"
    assert texts(number) == [["returns what is no JSON"]]


def test_tests_of_handlers_see_what_is_logged(handle: Handle) -> None:
    def mail(context: Any, ctx: Context) -> None:
        ctx.log("to ann")
        logger.info("sent")

    handle("mail", mail)
    assert perform("mail").logged == ["to ann", "INFO shop.mail: sent"]


def test_a_log_has_all_from_info_on_whatever_the_worker_logs() -> None:
    worker, job = logging.Logger("root"), attempt_log.AttemptLogHandler()
    job.name = "job"
    worker.handlers = [logging.StreamHandler(), job]
    signals.after_setup_logger.send(sender=None, logger=worker, loglevel=logging.ERROR)
    assert worker.level == logging.INFO
    assert [each.level for each in worker.handlers] == [logging.ERROR, logging.INFO]


# --- names of secrets that schemas declare --------------------------------------------------------
@pytest.fixture
def door(declared_secrets: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type whose schema names a secret, of which this process has read nothing yet."""
    schema = {"type": "object", "properties": {"door": {"type": "string", "secret": True}}}
    job_type("mail", params_schema=schema)
    monkeypatch.setattr(names, "_latest", frozenset())
    names.forget_declared()


def test_log_hides_what_a_schema_names_also_in_a_new_process(door: None) -> None:
    [held] = held_jobs(1)
    attempt_log.say(held, "door=hunter2")
    settle(outcomes=[attempt.interrupted(held, timedelta(0))])
    assert texts(held.id) == [["door=••••••"]]


def test_worker_hides_what_a_schema_names_in_its_own_log(
    door: None, handle: Handle, process: Process
) -> None:
    """By its first heartbeat, before it holds a job."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())

    def mail(context: Any) -> None:
        logger.warning("the code is %s", context)

    handle("mail", mail)
    logger.addHandler(handler)
    jobs(1, context={"door": "hunter2"})
    drained(process)
    logger.removeHandler(handler)
    assert "the code is {'door': ••••••}" in written.getvalue().replace("'••••••'", "••••••")
