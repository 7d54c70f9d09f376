"""Runs of flows: what people and the clock do to them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict, Invalid
from apps.dispatch.models import OnceTask
from apps.dispatch.services import pull
from apps.flows.models import FlowRun
from apps.flows.services import control, ends, programs
from apps.flows.services.advance import advance
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.services import archive
from apps.jobs.services import control as of_jobs
from tests import factories
from tests.flows import (
    OLGA,
    contexts,
    events,
    job,
    jobs,
    looks,
    ref,
    run_of,
    started,
    states,
    step_of,
    task,
    wait,
    work,
)
from tests.frozen import FrozenClock
from tests.jobs import row

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("mail")]


def test_job_that_is_retried_brings_its_run_back() -> None:
    run = started(
        job("a"),
        job("b", needs=["a"]),
        job("alarm", needs=["a"], when="failure"),
        key="k",
    )
    work(run, "a", "failed")
    work(run, "alarm")
    assert (run_of(run).status, run_of(run).open_key) == ("failed", None)
    assert states(run) == {"a": "failed", "b": "blocked", "alarm": "succeeded"}

    [number] = Job.objects.filter(part_of=step_of(run, "a").pk).values_list("pk", flat=True)
    of_jobs.retry(job=row(number), actor="admin:olga")
    assert ends.concerned([step_of(run, "a").pk]) == [run]
    advance(run)
    assert states(run)["a"] == "active" and run_of(run).status == "running"
    assert run_of(run).open_key == "|k"
    work(run, "a")
    assert ends.concerned([step_of(run, "a").pk]) == []
    work(run, "b")
    assert run_of(run).status == "succeeded"
    assert states(run) == {"a": "succeeded", "b": "succeeded", "alarm": "succeeded"}
    assert Job.objects.count() == 3

    # A late retry of a step that succeeded changes nothing.
    of_jobs.retry(job=row(number), actor="admin:olga")
    assert ends.concerned([step_of(run, "a").pk]) == []


def test_retry_that_nobody_heard_of_is_seen_within_the_hour(mail: FrozenClock) -> None:
    """As long as the job may be retried; then nobody looks any more."""
    run, other = started(job("a")), started(job("a"))
    for each in (run, other):
        work(each, "a", "failed")
    of_jobs.retry(job=Job.objects.get(part_of=step_of(run, "a").pk), actor="admin:olga")
    looks(mail, 3599)
    assert states(run) == {"a": "failed"}
    looks(mail, 1)
    assert states(run) == {"a": "active"} and run_of(run).status == "running"
    for _hour in range(24 * 7):
        looks(mail, 3600)
    assert step_of(other, "a").look_at is None


def test_retry_of_the_run(mail: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks of jobs there are."""
    monkeypatch.setattr(programs, "BLOCK", 1)
    run = started(
        jobs("many", [1, 2, 3]), wait("gate", within=5), job("after", needs=["many", "gate"])
    )
    work(run, "many", lambda held: "failed" if held.context["item"] > 1 else "succeeded")
    looks(mail, 6)
    assert states(run) == {"many": "failed", "gate": "failed", "after": "blocked"}
    assert step_of(run, "gate").memo == "not done within 5 s"
    assert run_of(run).status == "failed"

    control.retry(run=run_of(run), **OLGA)
    assert states(run) == {"many": "active", "gate": "active", "after": "blocked"}
    assert Job.objects.filter(status="ready").count() == 2
    # Also what is in the archive by then.
    work(run, "many", "failed")
    looks(mail, 6)
    mail.advance(days=8)
    archive.archive_ended(until=clock.now() + timedelta(seconds=9))
    assert not Job.objects.exists()
    control.retry(run=run_of(run), **OLGA)
    work(run, "many")
    control.finish(run=run_of(run), step="gate", result={"ok": 1}, **OLGA)
    assert states(run)["after"] == "active"
    with pytest.raises(Conflict, match="No step of run"):
        control.retry(run=run_of(run), **OLGA)


def test_key_keeps_one_run_open() -> None:
    run = started(job("a"), key="k")
    again = start("", definition={"steps": [job("a")]}, key="k")
    assert again == (run, False, "running") and FlowRun.objects.count() == 1
    work(run, "a", "failed")
    other = started(job("a"), key="k")
    assert other != run

    with pytest.raises(Conflict, match="Another run of  with the key k is open"):
        control.retry(run=run_of(run), **OLGA)
    failed = Job.objects.get(status="failed")
    of_jobs.retry(job=failed, actor="admin:olga")
    advance(run)
    assert (run_of(run).status, states(run)) == ("failed", {"a": "failed"})
    assert events(run)[-1] == "not_reopened a"


def test_pause_skip_finish(mail: FrozenClock) -> None:
    run = started(
        job("a"),
        job("b", needs=["a"]),
        wait("gate"),
        job("c", needs=["gate", "b"], context={"by": ref("gate", "by")}),
    )
    control.pause(run=run_of(run), **OLGA)
    work(run, "a")
    control.finish(run=run_of(run), step="gate", result={"by": "ann"}, **OLGA)
    assert states(run) == {"a": "succeeded", "b": "blocked", "gate": "succeeded", "c": "blocked"}
    assert run_of(run).status == "running"
    control.resume(run=run_of(run), **OLGA)
    assert states(run)["b"] == "active"
    # A repeat of a webhook.
    control.finish(run=run_of(run), step="gate", result={"by": "ben"}, **OLGA)
    with pytest.raises(Conflict, match="b is no step that waits"):
        control.finish(run=run_of(run), step="b", **OLGA)

    control.skip(run=run_of(run), step="b", **OLGA)
    assert states(run) == {"a": "succeeded", "b": "skipped", "gate": "succeeded", "c": "active"}
    assert Job.objects.get(part_of=step_of(run, "b").pk).status == "cancelled"
    assert contexts(run, "c") == [{"by": "ann"}]
    work(run, "c", "failed")
    assert run_of(run).status == "failed"
    control.skip(run=run_of(run), step="c", **OLGA)
    assert run_of(run).status == "succeeded"
    with pytest.raises(Invalid, match="Say why"):
        control.skip(run=run_of(run), step="c", actor="admin:olga", reason=" ")


def test_cancel(subtests: Any, mail: FrozenClock) -> None:
    factories.group(members=["uid_ann"])
    for force in (False, True):
        with subtests.test(f"{force=}"):
            run = started(
                jobs("many", [1, 2]), task("check"), wait("gate"), job("z", needs=["many"])
            )
            called: Any = pull.answer_pull("uid_ann")
            control.cancel(run=run_of(run), force=force, **OLGA)
            assert {
                *Job.objects.filter(part_of=step_of(run, "many").pk).values_list(
                    "status", flat=True
                )
            } == {"cancelled"}
            assert OnceTask.objects.get(pk=step_of(run, "check").task).status == "deleted"
            if not force:
                assert run_of(run).status == "cancelling" and states(run)["check"] == "active"
                pull.call_back("uid_ann", called.pk, "succeeded")
                advance(run)
            assert run_of(run).status == "cancelled"
            assert states(run) == {
                "many": "cancelled",
                "check": "cancelled",
                "gate": "cancelled",
                "z": "blocked",
            }
            with pytest.raises(Conflict):
                control.cancel(run=run_of(run), **OLGA)


def test_time_limit(mail: FrozenClock) -> None:
    run = started(
        jobs("many", [1, 2, 3], within=60, at_least=1),
        jobs("all", [4], within=60),
        job("z", needs=["many"]),
    )
    work(run, "many", lambda held: "succeeded" if held.context["item"] == 1 else "released")
    looks(mail, 30)
    assert states(run) == {"many": "active", "all": "active", "z": "blocked"}
    looks(mail, 31)
    # Enough were in time; the others are no longer waited for.
    assert states(run) == {"many": "succeeded", "all": "failed", "z": "active"}
    assert step_of(run, "all").memo == ("not done within 60 s: 0 of 1 jobs succeeded; it needs 1.")
    assert Job.objects.filter(status="cancelled").count() == 3
    assert step_of(run, "many").result["cancelled"] == 2


def test_wait_ends_by_the_clock(mail: FrozenClock) -> None:
    run = started(wait("hour", seconds=3600), job("z", needs=["hour"]))
    looks(mail, 3599)
    assert states(run)["z"] == "blocked"
    looks(mail, 1)
    assert states(run) == {"hour": "succeeded", "z": "active"}
