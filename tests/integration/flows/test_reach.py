"""Who may start what: a saved flow, and a job that starts one, is no way around a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.access.directory import Users
from apps.common.errors import Invalid, PlatformError
from apps.flows.handlers import flow
from apps.flows.models import Flow, FlowRun
from apps.flows.services import flows
from apps.flows.services.check import check
from apps.flows.services.results import find_step_with_results
from apps.flows.services.start import start
from apps.jobs.models import Bounds
from apps.jobs.services import control
from apps.jobs.services.submit import submit
from apps.jobs.testing import perform
from tests import factories
from tests.flows import job, jobs, ref, task
from tests.jobs import job_type, row

pytestmark = [pytest.mark.django_db]

BOTH = Bounds(types=["mail"], users=Users(frozenset({"gid_sales"})))


@pytest.fixture(autouse=True)
def world() -> None:
    job_type("mail")
    job_type("sms")
    job_type("twin", unique="always")
    job_type("flow", handler="flow")
    factories.group(members=["uid_ann"])
    factories.group("gid_other", ["uid_ben"])


def test_flows_within_and_beyond_the_limits_of_a_key(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[Any], Bounds, bool]] = [
        ("no limits", [job("a"), task("b")], Bounds(), True),
        ("its types", [job("a")], Bounds(types=["mail"]), True),
        ("another type", [job("a", type="sms")], Bounds(types=["mail"]), False),
        ("people are none of its types", [job("a"), task("b")], Bounds(types=["mail"]), False),
        ("its people", [task("b")], Bounds(users=Users(frozenset({"gid_sales"}))), True),
        ("a member of its group", [task("b", "uid_ann")], BOTH, True),
        ("other people", [task("b", "gid_other")], BOTH, False),
        ("jobs are nobody's", [job("a")], Bounds(users=Users(frozenset({"gid_sales"}))), False),
        ("both", [job("a"), task("b")], BOTH, True),
    ]
    for name, steps, bounds, is_fine in cases:
        with subtests.test(name):
            flows.put_flow(name="night", definition={"steps": steps}, actor="admin:olga")
            tried: list[Callable[[], Any]] = [
                lambda bounds=bounds: start("night", bounds=bounds),
                lambda bounds=bounds: flows.find_flow("night", bounds=bounds),
                lambda steps=steps, bounds=bounds: check({"steps": steps}, bounds=bounds),
            ]
            for attempt in tried:
                if is_fine:
                    attempt()
                else:
                    with pytest.raises(PlatformError, match="There is no"):
                        attempt()


def test_results_are_read_by_who_works_on_them_or_has_their_handle(
    subtests: pytest.Subtests,
) -> None:
    said = [
        jobs("many", [1, 2], type="sms"),
        job("report", context={"all": {"$results": "many"}}),
        job("other", type="twin2", needs=["many"]),
        task("check", "gid_other", needs=["report"]),
    ]
    job_type("twin2")
    flows.put_flow(name="night", definition={"steps": said}, actor="admin:olga")
    run = start("night").id
    people = Users(frozenset({"gid_other"}))
    cases = (
        ("open", "many", Bounds(), True),
        ("of its type", "many", Bounds(types=["sms"]), True),
        ("given the handle", "many", Bounds(types=["mail"]), True),
        ("after it alone", "many", Bounds(types=["twin2"]), False),
        ("of another step", "report", Bounds(types=["sms"]), False),
        ("people", "many", Bounds(users=people), False),
        ("its type for people", "many", Bounds(types=["sms"], users=people), False),
        ("no such step", "none", Bounds(types=["sms"]), False),
        ("a task", "check", Bounds(types=["mail"]), False),
    )
    for name, step, bounds, is_read in cases:
        with subtests.test(name):
            if is_read:
                assert find_step_with_results(run, step, bounds=bounds).name == step
            else:
                with pytest.raises(PlatformError, match="There is no flow run"):
                    find_step_with_results(run, step, bounds=bounds)


def test_flow_of_jobs_that_start_flows_is_beyond_all_limits() -> None:
    """Its params may name any other flow."""
    said = [job("a", type="flow", context={"flow": ref("params", "flow")})]
    flows.put_flow(name="any", definition={"steps": said}, actor="admin:olga")
    start("any", {"flow": "any"})
    people_alone = Bounds(users=Users(frozenset({"gid_sales"})), takes_nobodys=True)
    for bounds in (Bounds(types=["flow"]), people_alone):
        with pytest.raises(PlatformError, match="There is no flow"):
            start("any", {"flow": "any"}, bounds=bounds)
        assert not Flow.objects.within(bounds)
        assert not FlowRun.objects.within(bounds)
    assert Flow.objects.within(Bounds()) and FlowRun.objects.within(Bounds())


def test_what_a_definition_names_is_checked_when_it_is_saved() -> None:
    job_type("strict", params_schema={"type": "object", "required": ["x"]})
    factories.template()
    said = [
        job("a", type="gone"),
        job("b", type="strict"),
        job("c", type="strict", context={"x": ref("b")}),
        jobs("d", [{}], type="strict"),
        job("e", type="twin"),
        task("f", "gid_gone"),
        task("g", quota=2, mode="single", template="photo-check", params={"shop": 1}),
        task("h", template="none", lease_seconds=0),
        job("i", type="bulk"),
    ]
    with pytest.raises(Invalid) as refused:
        check({"steps": said}, bounds=Bounds())
    found = {each.field: str(each.message) for each in refused.value.errors}
    assert sorted(found) == [
        "definition.steps[0].type",
        "definition.steps[1].context.x",
        "definition.steps[4].type",
        "definition.steps[5].executor",
        "definition.steps[6].params.shop",
        "definition.steps[6].quota",
        "definition.steps[7].lease_seconds",
        "definition.steps[7].template",
        "definition.steps[8].type",
    ]


def test_job_that_starts_a_flow() -> None:
    flows.put_flow(name="night", definition={"steps": [job("a")]}, actor="admin:olga")
    context = {"flow": "night", "key": "k"}

    ended = perform("flow", context)
    assert ended.end == "succeeded"
    assert ended.result == {"run": str(FlowRun.objects.get().pk), "created": True}
    assert perform("flow", {"flow": "gone"}).end == "failed" and flow
    # Nobody with limits submits one, or changes what it starts.
    with pytest.raises(Invalid, match="start what lies beyond the limits"):
        submit("flow", context, bounds=Bounds(types=["flow"]))
    number = submit("flow", context, bounds=Bounds()).id
    with pytest.raises(Invalid, match="Code decides"):
        control.edit(
            job=row(number),
            version=1,
            changes={"context": {"flow": "other"}},
            actor="key:x",
            reason="y",
        )
