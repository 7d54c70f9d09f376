"""What the product offers for tests of handlers: as the README shows it, and where it says no."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from django.conf import settings
from django.db import transaction
from django.test import TestCase

from apps.common.errors import Invalid
from apps.jobs.handlers import Cancelled, Done, Fail, Later, Submission, handler
from apps.jobs.services.submit import submit
from apps.jobs.testing import inline, perform, run_due, submitted
from taskplatform import sdk
from tests.jobs import job_type

pytestmark = pytest.mark.django_db
Make = Callable[..., Any]


def shown() -> tuple[str, str, str]:
    """The handler with follow-ups, and both tests, as the documentation has them."""
    files = ("apps/jobs/README.md", "taskplatform/docs/handlers.md")
    text = "".join((settings.BASE_DIR / each).read_text() for each in files)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [order] = [each for each in blocks if "def order(" in each]
    [tests] = [each for each in blocks if "with inline()" in each]
    [of_client] = [each for each in blocks if "FakeClient()" in each]
    return order, tests, of_client


def run_shown(handle: Make) -> None:
    handle("receipt", lambda context: None)
    order, tests, _of_client = shown()
    exec(compile(order, "handlers.py", "exec"), {})  # noqa: S102
    job_type("order")

    def place_order(to: str) -> None:
        with transaction.atomic():
            submit("order", {"to": to})

    exec(compile(tests, "tests.py", "exec"), {"place_order": place_order})  # noqa: S102
    assert [job.status for job in submitted("receipt")] == ["succeeded"]


@pytest.mark.both
def test_the_readme_shows_what_runs(handle: Make) -> None:
    run_shown(handle)


@pytest.mark.django_db(transaction=True)
def test_inline_jobs_run_at_commit_and_not_before(handle: Make) -> None:
    ran: list[Any] = []
    handle("mail", ran.append)
    run_shown(handle)
    with inline():
        with transaction.atomic():
            submit("mail", {"n": 1})
            assert ran == []
        assert ran == [{"n": 1}]
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            submit("mail", {"n": 2})
            raise ZeroDivisionError
    assert ran == [{"n": 1}]
    submit("mail")
    assert len(ran) == 1


class OfUnittest(TestCase):
    def test_runs_there_too(self) -> None:
        job_type("echo")
        with inline():
            submit("echo", {"a": 1})
        assert submitted("echo")[0].result == {"a": 1}


def test_perform_says_how_an_attempt_ends(handle: Make) -> None:
    def mail(context: Any, ctx: Any) -> Any:
        ctx.progress(10)
        if ctx.cancelled:
            raise Cancelled
        if ctx.stopping:
            ctx.checkpoint(5)
            raise Later(0)
        if ctx.saved:
            raise Fail(f"{ctx.saved} {ctx.attempt} {ctx.key}")
        return Done(1, then=[Submission("receipt")])

    handler("letter", params_schema={"type": "object", "required": ["to"]})(mail)
    handle("mail", mail)

    done = perform("mail")
    assert (done.end, done.result, [each.type for each in done.submit]) == (
        *("succeeded", 1),
        ["receipt"],
    )
    stopped = perform("mail", stopping=True)
    assert (stopped.end, stopped.checkpoint) == ("released", 5)
    assert perform("mail", cancelled=True).end == "cancelled"
    assert perform("mail", saved=7, attempt_number=2, key="k").error == "7 2 k"
    with pytest.raises(Invalid, match="to"):
        perform("letter", {})
    with pytest.raises(LookupError, match="no handler 'fax'"):
        perform("fax")


def test_run_due_runs_one_type_or_all_and_nothing_that_waits(handle: Make) -> None:
    handle("mail", lambda context: 1 / context["n"], retry_delay_seconds=60)
    handle("bill", lambda context: None)
    for n in (0, 1):
        submit("mail", {"n": n})
    submit("bill")
    assert [each.end for each in run_due("mail")] == ["failed", "succeeded"]
    assert [each.end for each in run_due()] == ["succeeded"]
    assert run_due() == []


def test_the_client_for_tests_as_the_readme_shows_it() -> None:
    worker = sdk.Worker("http://127.0.0.1:1", "a.b")

    @worker.handler("video")
    def video(job: sdk.HeldJob) -> Any:
        job.checkpoint({"at": 1}, now=True)
        if job.context["url"] == "/none":
            raise sdk.Retry(5, "busy")
        return sdk.Done({"seconds": 9}, then=[sdk.Submission("mail")])

    def place_order(client: sdk.Client) -> None:
        client.submit("video", {"url": "/films/7"})

    module = ModuleType("sdk")
    module.__dict__.update(vars(sdk))
    names = {"place_order": place_order, "worker": worker}
    with mock.patch.dict("sys.modules", {"sdk": module}):
        exec(compile(shown()[2], "tests.py", "exec"), names)  # noqa: S102

    client = sdk.FakeClient()
    jobs = [sdk.Submission("mail", {}, key="a", unique=True, delay=5)] * 2
    first, twin = client.submit_many(jobs)
    assert (first.created, first.status, twin.created, twin.id) == (
        True,
        "scheduled",
        False,
        first.id,
    )
    for wish, done in (("later", "moved"), ("replace", "replaced")):
        assert client.submit("mail", key="a", unique=True, on_twin=wish, delay=9).twin == done
        assert client.submitted("mail")[0]["delay"] == 9
    assert client.submit_everywhere("reload")[0].created
    assert client.perform(worker, "video", {"url": "/"}) == {
        "outcome": "succeeded",
        "result": {"seconds": 9},
        "submit": [{"type": "mail", "context": {}}],
        "checkpoint": {"at": 1},
    }
    assert client.perform(worker, "video", {"url": "/none"})["retry_after"] == 5
    with pytest.raises(LookupError, match="no handler of 'fax'"):
        client.perform(worker, "fax")
    with pytest.raises(sdk.PlatformError, match="submissions only"):
        client.job("7")
