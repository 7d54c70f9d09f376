"""Hooks: generators around each attempt, and the signal that a job has ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from apps.jobs.handlers import Fail, Later, around
from apps.jobs.handlers.registry import known
from apps.jobs.models import Job
from apps.jobs.runner.process import Process
from apps.jobs.services import control
from apps.jobs.signals import job_ended
from taskplatform import sdk
from tests.frozen import FrozenClock
from tests.jobs import drained, end, events_of, held_jobs, jobs, rescue, row

pytestmark = pytest.mark.django_db(transaction=True)
Make = Callable[..., Any]
Steps = list[Any]


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "hooks", [])
    monkeypatch.setattr(known, "problems", [])
    monkeypatch.setattr(job_ended, "receivers", [])
    job_ended.sender_receivers_cache.clear()


def run_of(process: Process) -> Job:
    [number] = jobs(1)
    drained(process)
    return row(number)


def test_hooks_run_around_each_attempt_and_see_how_it_ends(handle: Make, process: Process) -> None:
    steps: Steps = []

    def hook(name: str) -> None:
        @around
        def named(job: Any) -> Iterator[None]:
            steps.append(f"{name} {job.type} {job.attempt}")
            try:
                yield
            except Fail as error:
                steps.append(f"{name}: {error}")
                raise
            steps.append(f"{name} ends")

    hook("outer")
    hook("inner")

    @around
    def keeps_it(job: Any) -> Iterator[None]:
        try:
            yield
        except Fail as error:
            steps.append(repr(error))

    ends: Steps = [None]

    def mail(context: Any) -> None:
        steps.append("runs")
        if ends[0]:
            raise ends[0]

    handle("mail", mail)
    assert run_of(process).status == "succeeded"
    assert steps == ["outer mail 1", "inner mail 1", "runs", "inner ends", "outer ends"]

    steps.clear()
    ends[0] = Fail("no address")
    job = run_of(process)
    assert (job.status, job.memo) == ("failed", "no address")
    assert steps[3:] == ["Fail('no address')", "inner: no address", "outer: no address"]

    ends[0] = Later(60)
    assert run_of(process).last_end == "yielded"


def _raises_before(job: Any) -> Iterator[None]:
    raise LookupError("no tracer")
    yield


def _raises_after(job: Any) -> Iterator[None]:
    yield
    raise LookupError("no tracer")


def _replaces(job: Any) -> Iterator[None]:
    try:
        yield
    finally:
        raise LookupError("no tracer")


def _yields_not(job: Any) -> Iterator[None]:
    if job is None:
        yield


def _yields_twice(job: Any) -> Iterator[None]:
    yield
    yield


def of_sdk(hooks: Steps, handler: Any, **more: Any) -> dict[str, Any]:
    """The outcome of a worker of the SDK with these hooks."""
    worker = sdk.Worker("http://fake.invalid", "fake.key")
    for hook in hooks:
        worker.around(hook)
    worker.handler("mail")(handler)
    return sdk.FakeClient().perform(worker, "mail", **more)


def test_a_hook_that_fails_fails_the_attempt_with_its_name(
    handle: Make, process: Process, subtests: pytest.Subtests
) -> None:
    handle("mail", lambda context: None)
    for hook in (_raises_before, _raises_after, _replaces, _yields_not, _yields_twice):
        said = f"HookFailed: The hook {__name__}.{hook.__name__}"
        known.hooks.clear()
        around(hook)
        with subtests.test(hook.__name__):
            job = run_of(process)
            assert (job.status, job.last_end, job.attempts) == ("scheduled", "failed", 1)
            assert said in job.memo
        with subtests.test(f"{hook.__name__} in the SDK"):
            outcome = of_sdk([hook], lambda job: None)
            assert outcome["outcome"] == "failed"
            assert said in outcome["summary"]
            assert "retry" not in outcome


def test_hooks_of_the_sdk_run_around_each_attempt_and_see_how_it_ends() -> None:
    steps: Steps = []

    def outer(job: Any) -> Iterator[None]:
        steps.append(f"outer {job.type}")
        try:
            yield
        finally:
            steps.append("outer ends")

    def inner(job: Any) -> Iterator[None]:
        try:
            yield
        except sdk.Fail as error:
            steps.append(f"inner: {error}")
        else:
            steps.append("inner ends")

    def fails(job: Any) -> None:
        raise sdk.Fail("no address")

    def logs(job: Any) -> str:
        job.log("runs")
        return "sent"

    outcome = of_sdk([outer, inner], logs)
    assert outcome == {"outcome": "succeeded", "result": "sent", "log": ["runs"]}
    assert steps == ["outer mail", "inner ends", "outer ends"]
    steps.clear()
    assert of_sdk([outer, inner], fails)["error"] == "no address"
    assert steps == ["outer mail", "inner: no address", "outer ends"]


def test_what_is_no_generator_is_said_before_a_worker_starts() -> None:
    around(lambda job: None)  # type: ignore[arg-type, return-value]
    [problem] = known.problems
    assert "is no generator" in problem


@contextmanager
def told() -> Iterator[Steps]:
    heard: Steps = []

    def hear(sender: Any, number: int, type: str, status: str, **_: Any) -> None:  # noqa: A002
        assert not transaction.get_connection().in_atomic_block
        heard.append((number, type, status))

    job_ended.connect(hear)
    yield heard


def test_the_signal_comes_after_the_commit_of_each_end_and_of_nothing_else(
    frozen_clock: FrozenClock,
) -> None:
    def deaf(**_: Any) -> None:
        raise LookupError("not listening")

    job_ended.connect(deaf)
    held = held_jobs(5, max_attempts=1)
    with told() as heard:
        end(held[0])
        end(held[0])
        end(held[1], "failed")
        end(held[2], "released")
        control.cancel(job=row(held[2].id), actor="admin:ann", reason="no more", force=False)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            end(held[3])
            raise ZeroDivisionError
        assert heard == [
            (held[0].id, "mail", "succeeded"),
            (held[1].id, "mail", "failed"),
            (held[2].id, "mail", "cancelled"),
        ]
        heard.clear()
        frozen_clock.advance(hours=1)
        rescue(frozen_clock)
        assert sorted(heard) == [(each.id, "mail", "failed") for each in held[3:]]
    assert events_of(held[0].id) == ["succeeded"]


def test_the_readme_shows_what_runs(handle: Make, process: Process) -> None:
    text = (settings.BASE_DIR / "taskplatform/docs/handlers.md").read_text()
    [shown] = [each for each in re.findall(r"```python\n(.*?)```", text, re.S) if "@around" in each]

    class Tracer:
        spans: list[str] = []

        @contextmanager
        def start_as_current_span(self, name: str) -> Iterator[None]:
            self.spans.append(name)
            yield

    names: dict[str, Any] = {"tracer": Tracer(), "statistics": Counter()}
    exec(compile(shown, "hooks.py", "exec"), names)  # noqa: S102
    handle("mail", lambda context: None)
    run_of(process)
    assert (Tracer.spans, names["statistics"]) == (["mail"], {("mail", "succeeded"): 1})
