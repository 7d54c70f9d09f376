"""Holding, listing and settings by the dialects of asyncflow. S2.12, S2.15."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services import outside
from apps.jobs.services.register import forget_seen
from apps.jobs.services.submit import submit
from tests.frozen import FrozenClock
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import job_type

pytestmark = pytest.mark.django_db


def job() -> Job:
    return Job.objects.get()


def test_worker_is_its_key_at_its_address(calls: Calls) -> None:
    calls.create()
    calls.hold()

    worker = Worker.objects.get()
    assert worker.name == f"{worker.client}@127.0.0.1/{calls.dialect.name}"
    assert (worker.host, worker.types) == ("127.0.0.1", ["lark"])
    assert worker.version == f"asyncflow {calls.dialect.name}"
    assert not worker.promises_beats
    assert (job().client, job().worker) == (worker.client, worker.name)


def test_quiet_worker_gets_nothing(calls: Calls) -> None:
    calls.hold()
    Worker.objects.update(is_quiet=True)
    outside.forget()
    forget_seen()
    calls.create()

    assert calls.hold() == []


def test_type_is_found_whatever_its_capitals_and_named_as_it_was_asked(calls: Calls) -> None:
    """A worker that is given another name takes none of the batch."""
    calls.create(task_type="LARK")

    [task] = calls.hold("Lark")

    assert task["task_type"] == "Lark"
    job_type("LARK", handler="", stages=["*"])
    assert calls.hold("LARK") == calls.hold("lark") == []
    assert calls.ask("hold", task_type="Lark", limit=1)[0] == 8039


def test_holds_take_as_many_as_asked_and_the_type_allows(calls: Calls) -> None:
    job_type("lark", handler="", stages=["*"], batch_limit=3)
    for _ in range(9):
        calls.create()

    assert len(calls.hold(limit=1)) == 1
    assert len(calls.hold(limit=100_000)) == 3
    # Without a limit as many as its settings say.
    assert len(calls.ask("hold", task_type="lark")[1]) == 3
    assert len(calls.hold(limit=0)) == 2
    assert calls.ask("hold", task_type="lark", limit=-1)[0] == 8020
    assert calls.ask("hold", task_type="lark", limit="many")[0] == 8021


def test_job_of_the_rest_api_is_a_task_with_its_context_as_text(calls: Calls) -> None:
    submit("lark", {"to": "bob", "n": [1]}, stage="one")

    [task] = calls.hold()

    assert json.loads(task["task_context"]) == {"to": "bob", "n": [1]}
    assert calls.set(task["task_id"], "waiting", task_stage="two") == 0
    assert job().context == {"to": "bob", "n": [1]}
    [task] = calls.hold()
    assert calls.set(task["task_id"], "waiting", task_stage="three", task_context="x") == 0
    assert calls.hold()[0]["task_context"] == "x"


def test_order_is_by_priority_and_age_and_nobody_comes_before_its_time(
    calls: Calls, frozen_clock: FrozenClock
) -> None:
    """S2.7: with asyncflow's server order time and priority never reach the row."""
    names = []
    for priority in (0, 0, 120, 60):
        names.append(calls.create(priority=priority))
        frozen_clock.advance(seconds=1)
    frozen_clock.advance(seconds=200)
    late = calls.create(priority=120)
    oldest, second, urgent, soon = (name.partition("_")[0] for name in names)

    held = [task["task_id"].partition("h")[0] for task in calls.hold()]

    # The one that came 200 s later is ahead of nobody who has waited longer than two minutes.
    assert held == [urgent, soon, oldest, second, late.partition("_")[0]]


# --- the list that holds --------------------------------------------------------------------------
@pytest.mark.both
@pytest.mark.parametrize("is_on", [False, True])
def test_list_of_waiting_tasks_holds_them_where_the_switch_says_so(
    calls: Calls, settings: Any, is_on: bool, make_key: Callable[..., str]
) -> None:
    """Some workers run what the list returns, so two copies would run each task twice."""
    settings.ASYNCFLOW_LIST_HOLDS = is_on
    for _ in range(3):
        calls.create()
    reader = Calls(calls.dialect.name, make_key(scopes=["read"]))
    asked: dict[str, Any] = {"task_type": "lark", "status": 1, "limit": 2}
    holds = is_on and calls.dialect.name == "g1"

    assert len(reader.ask("list", **asked)[1]) == 2
    lists = [[calls.words(each) for each in calls.ask("list", **asked)[1]] for _ in range(2)]

    names = [task["task_id"] for tasks in lists for task in tasks]
    assert len(set(names)) == (3 if holds else 2)
    assert Job.objects.filter(status="running").count() == (3 if holds else 0)
    if holds:
        assert {task["status"] for tasks in lists for task in tasks} == {2}
        assert [calls.set(name, "succeeded") for name in names] == [0, 0, 0]
    assert calls.ask("list", **{**asked, "status": 2})[1] == []


# --- settings -------------------------------------------------------------------------------------
def test_settings_can_be_changed_by_the_dialect_that_can(lark: Any, make_key: Any) -> None:
    calls = Calls("java", make_key())
    assert calls.ask("configure", {"task_type": "Lark", "max_retry_num": 4})[0] == 8048
    assert calls.ask("configure", {"task_type": "lark", "max_retry_num": 4})[0] == 0
    assert JobType.objects.get().max_attempts == 5
    assert calls.ask("configure", {"task_type": "lark", "schedule_limit": 0})[0] == 8045
    assert calls.ask("configure", {"task_type": ""})[0] == 8020

    assert calls.ask("configure", {"task_type": "mail", "max_processing_time": 60})[0] == 0
    made = JobType.objects.get(name="mail")
    assert (made.handler, made.stages, made.max_processing_seconds) == ("", ["*"], 60)


def test_name_that_no_type_can_have_is_not_registered(go: Calls, make_key: Any) -> None:
    assert go.ask("register", {"task_type": "a b"})[0] == 8047
    assert go.ask("register", {})[0] == 8020
    bound = Calls("g2", make_key(job_types=["mail"]))
    assert bound.ask("register", {"task_type": "other"})[0] == 8047
    assert bound.ask("register", {"task_type": "mail"})[0] == 0
