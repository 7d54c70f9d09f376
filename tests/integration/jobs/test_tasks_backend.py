"""Django's Tasks API: what is enqueued is a job, and its result is what became of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.apps import AppConfig, apps

from apps.common import clock
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType
from apps.jobs.runner.process import Process
from apps.jobs.services import control
from apps.jobs.services.submit import submit
from apps.jobs.services.types import make_types
from apps.jobs.tasks_api import (
    BaseTaskBackend,
    InvalidTaskBackendError,
    InvalidTaskError,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from apps.jobs.tasks_backend import HANDLER, PATH, JobsBackend, register_tasks, type_of
from tests.jobs import drained, end, job_type, jobs, take
from tests.shop import tasks as shop

pytestmark = pytest.mark.django_db

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
SUCCESSFUL, FAILED = TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED
TYPE = "shop.add"
# What a queue once was.
OLD = "task.default"
# What runs a task where it is enqueued, of the same package.
IMMEDIATE = BaseTaskBackend.__module__.replace("base", "immediate") + ".ImmediateBackend"


@pytest.fixture(autouse=True)
def installed_shop(settings: Any) -> Iterator[None]:
    """As EXTRA_APPS=tests.shop would do."""
    shop_app: Any = AppConfig.create("tests.shop")
    shop_app.apps = apps
    shop_app.import_models()
    settings.EXTRA_APPS = ["tests.shop"]
    known = registry.known
    with (
        patch.dict(apps.app_configs, shop=shop_app),
        patch.dict(known.handlers),
        patch.dict(known.types),
    ):
        yield


@pytest.fixture
def signals() -> Iterator[list[tuple[str, str]]]:
    """The signals that were sent, each with the status of its result."""
    sent: list[tuple[str, str]] = []
    named = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    receivers = []
    for name, signal in named.items():

        def receive(task_result: Any, name: str = name, **_: Any) -> None:
            sent.append((name, str(task_result.status)))

        signal.connect(receive)
        receivers.append((signal, receive))
    yield sent
    for signal, receive in receivers:
        signal.disconnect(receive)


@pytest.fixture
def process(process: Process) -> Process:
    register_tasks()
    return process


# --- enqueueing -----------------------------------------------------------------------------------
def test_task_becomes_a_job() -> None:
    later = clock.now() + timedelta(hours=1)

    result = shop.add.using(priority=-3, run_after=later).enqueue(2, second=5)

    [job] = Job.objects.all()
    assert (result.id, job.type, job.status) == (str(job.pk), TYPE, "scheduled")
    assert (job.priority, job.run_at, job.max_attempts) == (-3, later, 1)
    assert job.context == {
        "task": "tests.shop.tasks.add",
        "backend": "default",
        "queue": "default",
        "args": [2],
        "kwargs": {"second": 5},
    }
    assert (result.status, result.args, result.kwargs) == (READY, [2], {"second": 5})
    assert (result.task.priority, result.task.run_after) == (-3, later)
    assert (result.enqueued_at, result.started_at, result.attempts) == (job.created_at, None, 0)
    made = JobType.objects.get(name=TYPE)
    assert (made.handler, made.lane, made.max_attempts) == (HANDLER, "fast", 1)


def test_each_function_is_a_type_made_before_it_is_enqueued() -> None:
    """Its queue is its lane; limits, pauses and reports are by function."""
    register_tasks()
    made = make_types(actor="migrate")

    assert {"shop.add", "shop.greet", "shop.render"} <= {*made}
    assert not {HANDLER, OLD} & {*made}
    lanes = dict(JobType.objects.filter(name__startswith="shop.").values_list("name", "lane"))
    assert (lanes["shop.add"], lanes["shop.render"]) == ("fast", "slow")
    result = shop.render.using(queue_name="default").enqueue()
    assert Job.objects.get(pk=result.id).type == "shop.render"
    assert result.task.queue_name == "default"
    assert shop.render.enqueue().task.queue_name == "slow"


def test_names_that_no_type_may_have_are_shortened_and_stay_apart() -> None:
    long = "tests.shop.tasks." + "very_" * 20
    for path, name in (
        ("tests.shop.tasks.add", "shop.add"),
        ("tests.shop.orders.tasks.add", "shop.orders.tasks.add"),
        ("tests.shop.add", "shop.add"),
    ):
        assert type_of(path) == name
    assert len({type_of(f"{long}a"), type_of(f"{long}b"), type_of("tests.shop.tasks.发送")}) == 3
    assert max(len(type_of(f"{long}{n}")) for n in "ab") <= 64


def test_type_of_somebody_else_is_no_task(process: Process) -> None:
    job_type(TYPE, handler="echo")
    with pytest.raises(InvalidTaskError, match=r"shop.add of .* has the handler 'echo'"):
        shop.add.enqueue(1)


@pytest.mark.both
def test_arguments_that_are_no_json_are_refused() -> None:
    for value in (object(), {1, 2}, b"\xff", datetime(2026, 1, 1)):
        with pytest.raises((TypeError, ValueError)):
            shop.add.enqueue(value)
    assert not Job.objects.exists()


@pytest.mark.both
def test_tasks_that_no_worker_would_run_are_refused() -> None:
    def inner() -> None: ...

    with pytest.raises(InvalidTaskError, match="module level"):
        task(inner)
    with pytest.raises(InvalidTaskError, match="is not valid for backend"):
        shop.add.using(queue_name="elsewhere")
    with pytest.raises(InvalidTaskError, match="aware"):
        shop.add.using(run_after=datetime(2026, 1, 1))
    with pytest.raises(InvalidTaskError, match="whole number"):
        shop.add.using(priority=101)
    other: Any = SimpleNamespace(module_path="tests.shop.tasks.other")
    with pytest.raises(InvalidTaskError, match=r"Write 'from django[._]tasks import task'"):
        task_backends["default"].validate_task(other)
    del apps.app_configs["shop"]
    with pytest.raises(InvalidTaskError, match="is in no installed app"):
        shop.add.enqueue(1)


# --- running --------------------------------------------------------------------------------------
def test_task_runs_and_its_result_tells_what_became_of_it(
    process: Process, signals: list[tuple[str, str]]
) -> None:
    result = shop.add.enqueue(2)
    assert signals == [("enqueued", READY)]

    assert drained(process) == 1
    assert result.status == READY
    result.refresh()

    assert (result.status, result.return_value, result.is_finished) == (SUCCESSFUL, 3, True)
    assert (result.worker_ids, result.attempts, result.errors) == ([process.name], 1, [])
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert signals[1:] == [("started", RUNNING), ("finished", SUCCESSFUL)]


def test_coroutines_and_tasks_with_a_context_run(process: Process) -> None:
    greeting, told = shop.greet.enqueue("Ann"), shop.tell.enqueue()

    drained(process)

    assert shop.greet.get_result(greeting.id).return_value == "Hello Ann"
    assert shop.tell.get_result(told.id).return_value == [1, told.id, "RUNNING"]


def test_failed_task_fails_once_and_keeps_its_error(
    process: Process, signals: list[tuple[str, str]]
) -> None:
    result = shop.divide.enqueue(0)

    drained(process)
    result.refresh()

    assert result.status == FAILED
    [error] = result.errors
    assert error.exception_class is ZeroDivisionError
    assert error.traceback.startswith("Traceback")
    assert error.traceback.endswith("ZeroDivisionError: division by zero\n")
    assert "return 1 / by" in error.traceback
    assert signals[1:] == [("started", RUNNING), ("finished", FAILED)]
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_operator_may_have_it_tried_again(process: Process) -> None:
    result = shop.divide.enqueue(0)
    drained(process)
    job = Job.objects.get(pk=result.id)
    control.retry(job=job, actor="admin:root", reason="mended")
    Job.objects.filter(pk=job.pk).update(context={**job.context, "args": [4]})

    drained(process)
    result.refresh()

    assert (result.status, result.return_value) == (SUCCESSFUL, 0.25)
    assert (result.attempts, len(result.errors)) == (2, 1)


@pytest.mark.both
def test_refusals_and_results_that_are_no_json_fail(
    process: Process, signals: list[tuple[str, str]]
) -> None:
    results = [shop.refuse.enqueue(), shop.thing.enqueue()]

    drained(process)

    paths = ["apps.jobs.handlers.contract.Fail", "builtins.TypeError"]
    for result, path in zip(results, paths, strict=True):
        result.refresh()
        assert result.status == FAILED
        assert [error.exception_class_path for error in result.errors] == [path]
    assert signals.count(("finished", FAILED)) == 2


def test_jobs_of_the_types_that_queues_once_were_still_run(process: Process) -> None:
    job_type(OLD, max_attempts=1)
    kept: dict[str, Any] = {"task": "tests.shop.tasks.add", "backend": "default"}
    waiting = submit(OLD, {**kept, "args": [1], "kwargs": {"second": 4}}).id
    assert task_backends["default"].get_result(str(waiting)).status == READY

    drained(process)

    result = shop.add.get_result(str(waiting))
    assert (result.status, result.return_value, result.task.queue_name) == (
        SUCCESSFUL,
        5,
        "default",
    )


def test_what_others_submit_to_an_open_type_needs_its_arguments_alone(process: Process) -> None:
    shop.add.enqueue(1)
    made = submit(TYPE, {"args": [40, 2]}).id
    other = submit(TYPE, {"task": "tests.shop.tasks.divide", "args": [0]}).id

    drained(process)

    assert shop.add.get_result(str(made)).return_value == 42
    job = Job.objects.get(pk=other)
    assert (job.status, job.memo) == (
        "failed",
        "shop.add is not the type of the task 'tests.shop.tasks.divide'; enqueue it in code.",
    )


def test_job_that_names_no_task_fails_and_imports_nothing_foreign(process: Process) -> None:
    job_type(OLD, max_attempts=1)
    reasons = {
        "tests.shop.tasks.gone": "There is no task",
        "tests.shop.tasks.plain": "is no task",
        **dict.fromkeys(("antigravity.anything", ""), "is in no installed app"),
    }
    kept: dict[str, Any] = {"backend": "default", "args": [], "kwargs": {}}
    made = [submit(OLD, {"task": path, **kept}).id for path in reasons]

    drained(process)

    assert "antigravity" not in sys.modules
    for number, reason in zip(made, reasons.values(), strict=True):
        job = Job.objects.get(pk=number)
        assert job.status == "failed"
        assert reason in job.memo
        with pytest.raises(TaskResultDoesNotExist, match=reason):
            task_backends["default"].get_result(str(number))


def test_type_that_borrowed_the_handler_earlier_calls_no_task(process: Process) -> None:
    job_type("mine", handler="echo")
    JobType.objects.filter(name="mine").update(handler=OLD)
    made = submit("mine", {"task": "tests.shop.tasks.add", "args": [1], "kwargs": {}})

    drained(process)

    job = Job.objects.get(pk=made.id)
    assert job.status == "failed"
    assert job.memo.startswith("mine is not the type of the task 'tests.shop.tasks.add'")


def test_lost_worker_is_an_error_of_the_result(process: Process) -> None:
    result = shop.add.enqueue(1)
    [held] = take(types=(TYPE,))
    result.refresh()
    assert (result.status, result.worker_ids) == (RUNNING, [Job.objects.get().worker])

    end(held, "failed", error="broke")
    result.refresh()

    assert [error.traceback for error in result.errors] == ["broke\n"]
    assert result.errors[0].exception_class is TimeoutError


# --- results --------------------------------------------------------------------------------------
def test_results_of_others_do_not_exist() -> None:
    result = shop.add.enqueue(1)
    job_type("mail")
    [other] = jobs(1)

    for number in ("", "x", "-1", "²", "9" * 30, "1", str(other)):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(number)
    with pytest.raises(TaskResultDoesNotExist):
        JobsBackend("second", {}).get_result(result.id)
    with pytest.raises(TaskResultMismatch):
        shop.divide.get_result(result.id)


def test_each_queue_of_each_backend_runs_what_waits_of_its_old_type(settings: Any) -> None:
    settings.TASKS = {
        "default": {"BACKEND": PATH, "QUEUES": ["default", "mails"]},
        "second": {"BACKEND": PATH},
        "at_once": {"BACKEND": IMMEDIATE},
    }
    registry.known.handlers.clear()
    register_tasks()

    assert registry.names() == {HANDLER, OLD, "task.mails", "task.second.default"}
    assert registry.known.problems == []


def test_options_that_would_do_nothing_are_refused() -> None:
    with pytest.raises(InvalidTaskBackendError, match=r"OPTIONS \(retries\).*remove them"):
        JobsBackend("default", {"BACKEND": PATH, "OPTIONS": {"retries": 3}})
    assert JobsBackend("default", {"BACKEND": PATH, "OPTIONS": {"OPEN": []}}).queues == {"default"}
