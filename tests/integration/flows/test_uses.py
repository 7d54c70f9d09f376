"""What a flow or a schedule names is not deleted from under it: it would fail in the night."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.common.errors import Conflict
from apps.dispatch.models import Executor, Template
from apps.dispatch.services import executors, templates
from apps.flows.models import Flow
from apps.flows.services import control
from apps.flows.services.flows import put_flow
from apps.flows.services.start import start
from apps.jobs.models import JobType
from apps.jobs.services import types
from apps.journal.services.versions import set_status
from apps.schedules.services import schedules
from tests import factories
from tests.flows import OLGA, job, run_of, task
from tests.jobs import job_type
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("mail")]

NAMED = "Flows whose steps name it: 1; change or retire them first."


def named() -> Flow:
    """A flow that names a type, a template and a person, which nobody else uses."""
    job_type("other")
    factories.template()
    factories.user("uid_zoe")
    steps = [
        job("a", type="other"),
        task("b", "uid_zoe", template="photo-check", params={"shop": "Bern"}),
    ]
    return put_flow(name="night", definition={"steps": steps}, actor="test")


def delete_all() -> list[str]:
    """Try to delete each of them; what is said of those that stay."""
    said = []
    for delete in (
        lambda: types.delete_type(job_type=JobType.objects.get(name="other"), actor="test"),
        lambda: executors.remove_executor(
            executor=Executor.objects.get(name="uid_zoe"), actor="test"
        ),
        lambda: templates.remove_template(
            template=Template.objects.get(name="photo-check"), actor="test"
        ),
    ):
        try:
            delete()
        except Conflict as error:
            said.append(error.detail)
    return said


def test_what_an_active_flow_names_stays(admin_client: Client) -> None:
    named()
    found = delete_all()
    assert len(found) == 3
    assert all("Flows whose steps name it: 1" in each for each in found)
    for model, row in (
        ("jobs_jobtype", JobType.objects.get(name="other")),
        ("dispatch_executor", Executor.objects.get(name="uid_zoe")),
        ("dispatch_template", Template.objects.get(name="photo-check")),
    ):
        page = admin_client.get(reverse(f"admin:{model}_delete", args=[row.pk]))
        assert NAMED in text_of(page), model


def test_what_a_retired_flow_or_an_older_version_names_goes() -> None:
    named()
    put_flow(name="night", definition={"steps": [job("a")]}, actor="test")
    assert delete_all() == []
    flow = named()
    set_status(flow, Flow.Status.RETIRED, actor="test")

    assert delete_all() == []


def test_what_an_open_run_will_need_stays_until_its_end(admin_client: Client) -> None:
    """A run goes on by the version that it began with, also when its flow is retired."""
    flow = named()
    steps = [job("first"), *({**each, "needs": ["first"]} for each in flow.definition["steps"])]
    put_flow(name="night", definition={"steps": steps}, actor="test")
    runs = [start("night").id, start("", definition={"steps": steps}).id]
    set_status(
        put_flow(name="night", definition={"steps": [job("a")]}, actor="test"),
        Flow.Status.RETIRED,
        actor="test",
    )
    found = delete_all()
    assert len(found) == 3
    assert all("steps for it that have not begun: 2" in each for each in found)
    page = admin_client.get(
        reverse("admin:jobs_jobtype_delete", args=[JobType.objects.get(name="other").pk])
    )
    assert "Open runs of flows with steps for it that have not begun: 2;" in text_of(page)

    for number in runs:
        control.cancel(run=run_of(number), **OLGA)

    assert delete_all() == []


def test_type_of_a_schedule_stays_until_that_is_deleted() -> None:
    job_type("other")
    made = schedules.create_schedule(
        title="Nightly",
        job_type="other",
        rule={"every_days": 1, "at": "02:00"},
        time_zone="UTC",
        actor="test",
    )
    with pytest.raises(Conflict, match="Schedules that make its jobs: 1"):
        types.delete_type(job_type=JobType.objects.get(name="other"), actor="test")
    schedules.delete_schedule(schedule=made, actor="test")

    types.delete_type(job_type=JobType.objects.get(name="other"), actor="test")
