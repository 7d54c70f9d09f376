"""S1.5, I36: handlers are found by name, and checked before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection

from apps.flows import handlers as flows
from apps.jobs.conf import READY_MADE
from apps.jobs.handlers import discovery, handler, registry
from apps.jobs.handlers.registry import Registry, find, known
from apps.jobs.models import JobType
from apps.jobs.runner import worker
from apps.jobs.runner.process import types_with_handler
from taskplatform import startup
from taskplatform.startup import CannotStart
from tests.jobs import job_type

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(known, "handlers", dict(known.handlers))
    monkeypatch.setattr(known, "problems", [])
    yield known


def one(context: Any) -> None: ...
def one_with_default(context: Any, retries: int = 3) -> None: ...
def two(context: Any, ctx: Any) -> None: ...
def two_by_name(context: Any, ctx: Any = None) -> None: ...
def none() -> None: ...
def three(context: Any, ctx: Any, more: Any) -> None: ...
def by_name(context: Any, *, ctx: Any) -> None: ...
async def later(context: Any) -> None: ...


def test_form_of_a_handler_is_seen_by_its_arguments() -> None:
    forms = {one: False, one_with_default: False, two: True, two_by_name: True}
    for function, is_long in forms.items():
        assert handler(function.__name__)(function) is function
        found = find(function.__name__)
        assert found is not None
        assert (found.function, found.is_long) == (function, is_long)


WRONG: tuple[tuple[Callable[..., Any], str, dict[str, Any], str], ...] = (
    (none, "mail", {}, "must take (context) or (context, ctx)"),
    (three, "mail", {}, "must take (context) or (context, ctx)"),
    (by_name, "mail", {}, "must take (context) or (context, ctx)"),
    (later, "mail", {}, "is async"),
    (one, "two words", {}, "a name has 1 to 64 letters"),
    (one, "", {}, "a name has 1 to 64 letters"),
    (one, "x" * 65, {}, "a name has 1 to 64 letters"),
    (one, "shop/mail", {}, "without slashes"),
    (one, "../mail", {}, "without slashes"),
    (one, "..", {}, "not only dots"),
    (one, "mail", {"lanes": "slow"}, "settings that a job type does not have: lanes"),
    (one, "mail", {"version": 2}, "settings that a job type does not have: version"),
    (one, "mail", {"lane": "quick"}, "can have. lane: 'quick' is no lane; choose one of fast"),
    (one, "mail", {"max_attempts": 0}, "max_attempts: 0 does not do; write a whole number"),
    (one, "mail", {"params_schema": {"type": 1}}, "params_schema: It must be a JSON Schema"),
)


def test_handler_that_cannot_be_called_is_an_error() -> None:
    for function, name, settings, _ in WRONG:
        handler(name, **settings)(function)

    errors = [each.msg for each in run_checks() if each.id == "jobs.E001"]
    for (_, name, _, said), error in zip(WRONG, errors, strict=True):
        assert said in error
        assert find(name) is None


def test_second_handler_of_a_name_is_an_error_and_stops_workers() -> None:
    handler("mail")(one)
    handler("mail")(one)
    assert known.problems == []
    handler("mail")(two)

    [problem] = known.problems
    assert "Two handlers are named 'mail'" in problem
    assert ".one and " in problem
    with pytest.raises(SystemExit):
        worker.verify()
    with pytest.raises(CannotStart, match="Two handlers are named 'mail'"):
        startup.ensure_handlers()


def test_type_of_a_handler_that_is_missing_is_said_and_stops_no_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next release may have made it, beside which this one goes on."""
    handler("order")(one)
    job_type("mail", handler="mial")
    job_type("outside", handler="")

    [warning] = [each for each in run_checks(databases=["default"]) if each.id == "jobs.W004"]
    assert warning.msg == "The job type mail names the handler mial, which does not exist."
    assert "@handler('mial')" in str(warning.hint)
    assert not warning.is_serious()
    worker.verify()
    assert "The job type mail names the handler 'mial'" in caplog.text
    assert "outside" not in caplog.text
    assert {"mail", "outside"}.isdisjoint(types_with_handler())
    assert "order" in types_with_handler()
    [gap] = startup.ensure_handlers()
    assert gap in caplog.text


@pytest.mark.both
def test_start_of_a_worker_makes_the_types_of_its_handlers() -> None:
    handler("mail", lane="slow", max_attempts=7, title="Mail")(one)

    worker.verify()
    JobType.objects.filter(name="mail").update(max_attempts=9)
    worker.verify()

    made = JobType.objects.get(name="mail")
    assert (made.handler, made.lane, made.max_attempts, made.title) == ("mail", "slow", 9, "Mail")


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_start_of_a_web_server_makes_the_types_if_it_can(
    racers: Any, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    handler("mail")(one)
    with subtests.test("read-only"):
        with read_only():
            assert "cannot be made now" in startup.types_problem()
        assert not JobType.objects.filter(name="mail").exists()
    with subtests.test("several at once"):
        assert racers([startup.types_problem] * 8).results == [""] * 8
        assert JobType.objects.filter(name="mail").count() == 1
    with subtests.test("read-only, and there is nothing to make"), read_only():
        assert startup.types_problem() == ""
    with subtests.test("not migrated"):
        code = (
            "import django; django.setup()\n"
            "from taskplatform import startup; print(startup.types_problem())"
        )
        environment = {**os.environ, "DATABASE_URL": "", "REDIS_URL": "", "VAR_DIR": str(tmp_path)}
        environment |= {"DJANGO_SETTINGS_MODULE": "taskplatform.settings"}
        command = [sys.executable, "-c", code]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert "no such table" in said.stdout
    with subtests.test("wrong handlers"):
        handler("mail")(two)
        assert "Two handlers are named 'mail'" in startup.types_problem()


@contextmanager
def read_only() -> Iterator[None]:
    """The database takes no change."""
    mysql = connection.vendor == "mysql"
    words = ("READ ONLY", "READ WRITE") if mysql else ("ON", "OFF")
    statement = "SET SESSION TRANSACTION" if mysql else "PRAGMA query_only ="
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} {words[0]}")
        yield
        cursor.execute(f"{statement} {words[1]}")


def test_types_of_ready_made_handlers_are_made_on_wish(settings: Any) -> None:
    every = {name for name, entry in known.handlers.items() if not entry.when_needed}
    modules = {name: registry.find(name).function.__module__ for name in every}  # type: ignore[union-attr]
    found = {name for name in every if modules[name] in (*discovery.READY_MADE, flows.__name__)}
    assert {*READY_MADE} == found
    own = {name for name in every if not registry.known.handlers[name].of_many}
    for wished in ((), ("sleep",), READY_MADE):
        settings.JOB_READY_MADE = wished
        worker.verify()
        there = {*JobType.objects.values_list("name", flat=True)}
        assert there == own - {*READY_MADE} | {*wished}
    # Those that there are stay.
    settings.JOB_READY_MADE = ()
    worker.verify()
    assert {*JobType.objects.values_list("name", flat=True)} == own


@pytest.mark.both
def test_worker_that_cannot_make_the_types_does_not_start_without_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Celery only logs errors of its signals; such a worker would take messages and run nothing."""

    def fail() -> None:
        raise RuntimeError("no room")

    queues = SimpleNamespace(consume_from=["fast", "slow"])
    instance = SimpleNamespace(
        app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)),
        concurrency=2,
        pool_cls=SimpleNamespace(__module__="celery.concurrency.thread"),
    )
    monkeypatch.setattr(worker, "verify", fail)
    monkeypatch.setattr(worker, "connections", SimpleNamespace(close_all=lambda: None))
    with pytest.raises(SystemExit):
        worker._set_up(instance)
    assert "no room" in capfd.readouterr().err
