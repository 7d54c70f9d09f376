"""Runs of flows: what begins when, what becomes of failures, and who works on them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Invalid, PlatformError
from apps.flows.models import FlowRun, FlowStep
from apps.flows.services import control, flows, retention
from apps.flows.services.advance import advance
from apps.flows.services.results import results_of
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.services import types
from apps.jobs.sweeps import discard_exhausted
from apps.journal.models import JournalEntry
from apps.journal.services.versions import set_status
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
from tests.jobs import end, job_type, take
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("mail")]


def test_diamond_runs_to_its_end() -> None:
    run = started(
        job("list", context={"shop": ref("params", "shop")}),
        jobs("resize", ref("list", "photos"), max=9, context={"shop": ref("params", "shop")}),
        job("index", context={"photos": ref("list", "photos")}),
        job("publish", needs=["index"], context={"made": ref("resize")}),
        params={"shop": "Bern"},
    )
    assert states(run) == {
        "list": "active",
        "resize": "blocked",
        "index": "blocked",
        "publish": "blocked",
    }
    assert contexts(run, "list") == [{"shop": "Bern"}]
    trace = {*Job.objects.values_list("trace_id", flat=True)}
    assert trace == {run_of(run).trace_id} and run_of(run).trace_id == f"flow-{run}"

    work(run, "list", result={"photos": ["a", {"url": "b"}]})
    assert contexts(run, "resize") == [
        {"shop": "Bern", "item": "a"},
        {"shop": "Bern", "url": "b"},
    ]
    work(run, "index")
    assert states(run)["publish"] == "blocked"
    work(run, "resize", result=7)
    made = {"count": 2, "succeeded": 2, "failed": 0, "cancelled": 0, "results": [7, 7]}
    assert contexts(run, "publish") == [{"made": made}]
    work(run)
    done = run_of(run)
    assert done.status == "succeeded" and done.finished_at is not None
    assert not FlowStep.objects.filter(look_at__isnull=False).exists()
    assert events(run) == [
        "started",
        "step_active list",
        "step_ended list",
        "step_active resize",
        "step_active index",
        "step_ended index",
        "step_ended resize",
        "step_active publish",
        "step_ended publish",
        "ended",
    ]
    # Whoever looks again changes nothing.
    assert not advance(run) and events(run)[-2:] == ["step_ended publish", "ended"]


def test_run_is_brought_on_by_few_statements() -> None:
    """None for what nobody asks for: results of needs, steps just made, jobs counted twice."""
    steps = [job("a"), job("b", needs=["a"]), job("c", needs=["a"])]
    found: list[int] = []
    begun = sent_by(lambda: found.append(started(*steps)))
    for held in take():
        end(held)
    gone_on = sent_by(lambda: advance(found[0]))
    assert states(found[0]) == {"a": "succeeded", "b": "active", "c": "active"}
    assert [*map(_of_rows, (begun, gone_on))] == [4, 8]


def _of_rows(sent: list[str]) -> int:
    """How many of the statements are about runs, steps and jobs."""
    return sum(bool(re.search(r"flows_flow|jobs_job\b", sql)) for sql in sent)


def test_joins_conditions_and_failures(subtests: Any) -> None:
    two = [job("a"), job("b")]
    of_a = {"if": {"step": "a", "path": "big", "equals": True}}
    cases: list[tuple[str, list[dict[str, Any]], dict[str, str], dict[str, str], str]] = [
        ("all are well", [job("c", needs=["a", "b"])], {}, {"c": "active"}, "running"),
        ("one failed", [job("c", needs=["a", "b"])], {"b": "failed"}, {"c": "blocked"}, "failed"),
        (
            "an optional one failed",
            [job("x", optional=True), job("c", needs=["a", "x"])],
            {"x": "failed"},
            {"c": "active"},
            "running",
        ),
        (
            "an alarm for what is never reached",
            [job("c", needs=["a"]), job("d", needs=["c"], when="failure")],
            {"a": "failed"},
            {"c": "blocked", "d": "active"},
            "running",
        ),
        (
            "no alarm",
            [job("d", needs=["a", "b"], when="failure")],
            {},
            {"d": "skipped"},
            "succeeded",
        ),
        (
            "always",
            [job("d", needs=["a"], when="always")],
            {"a": "failed"},
            {"d": "active"},
            "running",
        ),
        (
            "an exclusive branch is joined",
            [job("c", **of_a), job("d", needs=["b", "c"])],
            {},
            {"c": "skipped", "d": "active"},
            "running",
        ),
        (
            "all that it needs was skipped",
            [job("c", **of_a), job("d", needs=["c"])],
            {},
            {"c": "skipped", "d": "skipped"},
            "succeeded",
        ),
    ]
    for name, steps, ends_, then, status in cases:
        with subtests.test(name):
            run = started(*two, *steps)
            for first in ("a", "b", "x"):
                if FlowStep.objects.filter(run=run, name=first, state="active").exists():
                    work(run, first, ends_.get(first, "succeeded"), result={"big": 1})
            found = states(run)
            assert {each: found[each] for each in then} == then
            assert run_of(run).status == status


def test_what_a_definition_causes_fails_the_step_alone(subtests: Any) -> None:
    lists: list[Any] = [
        ({"photos": 7}, "each is no list, but int."),
        ({}, "list has nothing at photos."),
        ({"photos": [1] * 4}, "each has 4 items, and the step takes 3."),
    ]
    for result, why in lists:
        with subtests.test(why):
            run = started(job("list"), jobs("resize", ref("list", "photos"), max=3), job("other"))
            work(run, "list", result=result)
            assert states(run) == {"list": "succeeded", "resize": "failed", "other": "active"}
            assert step_of(run, "resize").memo == why
            work(run)
            assert run_of(run).status == "failed"
    with subtests.test("a type that is gone, then there again"):
        job_type("gone", max_attempts=1)
        run = started(job("list"), job("late", type="gone", needs=["list"]))
        type_ = job_type("gone")
        type_.delete()
        job_type("mail", max_attempts=1)
        work(run, "list")
        assert step_of(run, "late").memo.startswith("type: There is no job type 'gone'")
        job_type("gone")
        control.retry(run=run_of(run), **OLGA)
        assert states(run)["late"] == "active" and run_of(run).status == "running"
    with subtests.test("a type that is gone while its jobs wait"):
        run = started(jobs("late", [1, 2], type="gone"))
        types.find("gone").delete()
        assert discard_exhausted() == 3
        advance(run)
        assert step_of(run, "late").memo == "0 of 2 jobs succeeded; it needs 2."
        assert run_of(run).status == "failed"
    with subtests.test("a type that is paused meanwhile keeps its jobs"):
        late = job_type("late", max_attempts=1)
        run = started(wait("gate"), job("late", type="late", needs=["gate"]))
        types.pause_type(job_type=late, **OLGA)
        control.finish(run=run_of(run), step="gate", **OLGA)
        assert states(run)["late"] == "active" and not take(types=("late",))
        types.resume_type(job_type=late, **OLGA)
        [held] = take(types=("late",))
        end(held)
        advance(run)
        assert run_of(run).status == "succeeded"
    with subtests.test("a context that has no key to be limited by"):
        job_type("limited", limit_by="context.shop", limit_running=1)
        shops = [{"shop": 7}, {"shop": {"id": 7}}]
        run = started(job("list"), jobs("all", ref("list"), type="limited", needs=["list"]))
        work(run, "list", result=shops)
        assert step_of(run, "all").memo.startswith("jobs[1].context: ")
        assert not Job.objects.filter(type="limited").exists()
    with subtests.test("a template whose newest version they do not fit"):
        factories.user("uid_eve")
        factories.template("check-out", {"type": "object"})
        run = started(job("list"), task("check", "uid_eve", template="check-out", needs=["list"]))
        factories.template("check-out", {"type": "object", "required": ["shop"]})
        work(run, "list")
        assert states(run) == {"list": "succeeded", "check": "failed"}
        assert step_of(run, "check").memo.endswith('Missing: "shop"')
    with subtests.test("somebody who is gone"):
        zoe = factories.user("uid_zoe")
        run = started(job("list"), task("check", "uid_zoe", needs=["list"]))
        # As SQL can.
        zoe.delete()
        work(run, "list")
        assert step_of(run, "check").memo == "There is no person or group 'uid_zoe'."
    with subtests.test("a schema that no context fits"):
        integers = {"type": "object", "properties": {"x": {"type": "integer"}}}
        job_type("strict", params_schema=integers)
        run = started(wait("gate"), job("strict", type="strict", context={"x": ref("gate")}))
        control.finish(run=run_of(run), step="gate", result="seven", **OLGA)
        assert "x" in step_of(run, "strict").memo and run_of(run).status == "failed"
    with subtests.test("no items at all"):
        run = started(jobs("none", []), job("after", needs=["none"]))
        assert states(run) == {"none": "succeeded", "after": "active"}


def test_step_of_as_many_items_as_may_be() -> None:
    """Also where a result, the params or a definition names them, and no item more."""
    run = started(job("list"), jobs("many", ref("list", "photos")))
    work(run, "list", result={"photos": [*range(10_000)], "skipped": 7})
    step = step_of(run, "many")
    assert (step.state, step.made) == ("active", 10_000)
    control.cancel(run=run_of(run), force=True, **OLGA)
    while advance(run):
        pass
    assert run_of(run).status == "cancelled"
    assert Job.objects.filter(part_of=step.pk, status="cancelled").count() == 10_000
    items = {"items": [*range(10_001)]}
    run = started(jobs("many", ref("params", "items")), params=items)
    assert step_of(run, "many").memo == "each has 10001 items, and the step takes 10000."


def test_enough_of_many(subtests: Any) -> None:
    for least, good, state in (
        ({}, 3, "failed"),
        ({"at_least": 3}, 3, "succeeded"),
        ({"at_least": 75, "unit": "percent"}, 3, "succeeded"),
        ({"at_least": 76, "unit": "percent"}, 3, "failed"),
    ):
        with subtests.test(str(least)):
            run = started(jobs("many", [1, 2, 3, 4], **least))
            work(
                run,
                how=lambda held, good=good: (
                    "succeeded" if held.context["item"] <= good else "failed"
                ),
            )
            assert states(run) == {"many": state}
            result = step_of(run, "many").result
            assert (result["succeeded"], result["failed"]) == (3, 1)
            [ended] = JournalEntry.objects.filter(subject_id=run, event="step_ended")
            counts = {"made": 4, "succeeded": 3, "failed": 1}
            assert (ended.to_state, ended.data) == (state, {"step": "many", **counts})


def test_results_are_read_in_pages(mail: FrozenClock) -> None:
    run = started(
        jobs("many", ref("params", "items")),
        job("z", context={"all": {"$results": "many"}}),
        params={"items": [*range(600)]},
    )
    while work(run, "many", result=1):
        pass
    [context] = contexts(run, "z")
    assert context == {"all": {"run": str(run), "step": "many", "count": 600}}
    assert step_of(run, "many").result == {
        "count": 600,
        "succeeded": 600,
        "failed": 0,
        "cancelled": 0,
    }
    found = [*results_of(context["all"])]
    assert len(found) == 600 and {(each.status, each.result) for each in found} == {
        ("succeeded", 1)
    }
    assert [each.id for each in found] == sorted(each.id for each in found)


def test_broken_run_stops_no_other(mail: FrozenClock, caplog: pytest.LogCaptureFixture) -> None:
    """Soon looked at again, for what broke may be gone by then, and ever more seldom later."""
    broken, poisoned, well = started(job("a")), started(job("a")), started(job("a"))
    FlowStep.objects.filter(run=broken).update(name="gone")
    FlowRun.objects.filter(pk=poisoned).update(definition={"steps": [7]})
    Job.objects.update(status="succeeded", finished_at=clock.now())
    # That nobody can say when to look at again, breaks the look at those that go on.
    FlowStep.objects.filter(run=started(job("a"))).update(started_at=None)
    for seconds, wait_ in ((2, 0.2), (600, 60)):
        looks(mail, seconds)
        for run in (broken, poisoned):
            at = FlowStep.objects.get(run=run).look_at
            assert at == clock.now() + timedelta(seconds=wait_)
            assert FlowStep.objects.get(run=run).memo.startswith("The last look at the run broke (")
            assert f"flow run {run} broke; it is looked at again" in caplog.messages
    assert run_of(well).status == "succeeded"
    FlowStep.objects.filter(run=broken).update(name="a")
    looks(mail, 61)
    assert run_of(broken).status == "succeeded" and step_of(broken, "a").memo == ""
    control.cancel(run=run_of(poisoned), **OLGA)
    assert run_of(poisoned).status == "cancelled"


def test_saved_flows_and_runs_of_them() -> None:
    schema = {"type": "object", "required": ["shop"]}
    one = {"params": schema, "steps": [job("a")]}
    made = flows.put_flow(name="night", definition=one, actor="admin:olga", new=True)
    assert flows.put_flow(name="night", definition=one, actor="admin:olga").pk == made.pk
    with pytest.raises(PlatformError, match="Missing: "):
        start("night", {})
    run = start("night", {"shop": "Bern"}, key="k", by="key:shop").id
    two = {**one, "steps": [job("b")]}
    assert flows.put_flow(name="night", definition=two, actor="admin:olga").version == 2
    assert states(run) == {"a": "active"} and run_of(run).started_by == "key:shop"
    latest = flows.find_flow("night")
    set_status(latest, "retired", actor="admin:olga")
    with pytest.raises(Invalid, match="night v2 is retired"):
        start("night", {"shop": "Bern"})


def test_runs_are_forgotten_in_time(mail: FrozenClock) -> None:
    old, still = started(wait("gate", seconds=1)), started(job("a"))
    looks(mail, 2)
    mail.advance(days=401)
    assert retention.forget_runs(clock.now()) == 1
    assert [*FlowRun.objects.values_list("pk", flat=True)] == [still]
    assert not FlowStep.objects.filter(run=old).exists()
