"""What jobs, tasks and dispatches are part of: words and filters, for who may see the run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from apps.bulk.models import BulkRun
from apps.common import clock
from apps.common.admin.html import list_url, page_url
from apps.dispatch.models import Dispatch, OnceTask, OperatorScope
from apps.dispatch.services import pull
from apps.flows.models import FlowRun, FlowStep
from apps.flows.services.advance import advance
from apps.flows.services.flows import put_flow
from apps.flows.services.start import start
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services import archive
from apps.jobs.services.submit import submit
from tests import factories
from tests.flows import job, jobs, started, step_of, task, work
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out
from tests.pages import text_of
from tests.statements import is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

STEPS = [
    jobs("resize", [1, 2, 3]),
    task("check", needs=["resize"], quota=2),
    job("last", needs=["check"]),
]


@pytest.fixture
def run(mail: FrozenClock) -> int:
    """A run whose first jobs are in the archive, and whose task Ann has."""
    factories.group(members=["uid_ann", "uid_ben"])
    factories.group("gid_other", ["uid_eve"])
    put_flow(name="night", definition={"steps": STEPS}, actor="deploy")
    number = start("night").id
    submit("mail", key="alone")
    work(number, "resize")
    pull.answer_pull("uid_ann")
    mail.advance(days=8)
    archive.archive_ended(until=clock.now() + timedelta(minutes=1))
    advance(number)
    return number


def words(run: int, step: str) -> str:
    return f"step {step} of run {run} of flow night"


def pages_of(run: int) -> dict[str, tuple[str, str]]:
    """The pages that say it, each with the step."""
    once = OnceTask.objects.get()
    asked = {"executor": "uid_ben", "task": f"once:{once.pk}"}
    of = {name: step_of(run, name).pk for name in ("resize", "check")}
    return {
        "archived job": (page_url(ArchivedJob, ArchivedJob.objects.first().pk), "resize"),  # type: ignore[union-attr]
        "task": (page_url(OnceTask, once.pk), "check"),
        "dispatch": (page_url(Dispatch, Dispatch.objects.get().pk), "check"),
        "why not": (f"{reverse('admin:dispatch_executor_explain')}?{urlencode(asked)}", "check"),
        "list of archived jobs": (list_url(ArchivedJob, part_of=of["resize"]), "resize"),
        "list of tasks": (list_url(OnceTask, part_of=of["check"]), "check"),
        "list of dispatches": (list_url(Dispatch, part_of=of["check"]), "check"),
    }


def test_pages_say_what_rows_are_part_of_to_who_may_see_the_run(
    run: int, role_client: Callable[[str], Client], subtests: pytest.Subtests
) -> None:
    viewer = role_client("viewer")
    for name, (url, step) in pages_of(run).items():
        with subtests.test(name):
            page = viewer.get(url)
            assert words(run, step) in text_of(page)
            if "list of" in name:
                assert len(page.context["cl"].result_list) == (3 if step == "resize" else 1)
            else:
                assert page_url(FlowRun, run) in page.content.decode()
    assert words(run, "resize") not in text_of(viewer.get(page_url(Job, Job.objects.get().pk)))


def test_they_say_nothing_of_a_run_that_somebody_may_not_see(
    run: int, role_user: Callable[[str], User], client: Client, subtests: pytest.Subtests
) -> None:
    person = role_user("viewer")
    # They see the task and the dispatch, but the run asks others, too.
    OperatorScope.objects.create(operator=person, executor=OnceTask.objects.get().executor)
    FlowStep.objects.filter(run=run, name="last").update(kind="task", target="gid_other")
    client.force_login(person)
    for name, (url, step) in pages_of(run).items():
        with subtests.test(name):
            page = client.get(url)
            assert page.status_code in (200, 302, 403, 404)
            assert words(run, step) not in page.content.decode()
    plain = User.objects.create_user("nora", is_staff=True)
    plain.user_permissions.set(Permission.objects.filter(codename="view_dispatch"))
    client.force_login(plain)
    page = client.get(page_url(Dispatch, Dispatch.objects.get().pk))
    assert page.status_code == 200 and str(run) not in page.content.decode()


def test_who_is_part_of_nothing_costs_no_statement(
    run: int, admin_client: Client, subtests: pytest.Subtests
) -> None:
    for model, count in ((Job, 0), (Dispatch, 1)):
        with subtests.test(model=model.__name__):
            url = page_url(model, model.objects.get().pk)
            sent = sent_by(lambda url=url: admin_client.get(url))
            assert sum(is_read(FlowStep, each) for each in sent) == count


def test_rows_are_found_by_what_they_are_part_of(
    run: int, api: Any, admin_client: Client, subtests: pytest.Subtests
) -> None:
    asked = api.get(f"/api/v1/flow-runs/{run}/").json()
    of = {step["name"]: step["id"] for step in asked["steps"]}
    archived = {str(pk) for pk in ArchivedJob.objects.values_list("pk", flat=True)}
    once, held = OnceTask.objects.get().pk, str(Dispatch.objects.get().pk)
    factories.once_task(OnceTask.objects.get().executor)
    for path, step, key, wanted in (
        ("jobs/", "resize", "id", set()),
        ("jobs/?archived=true", "resize", "id", archived),
        ("jobs/?archived=true", "check", "id", set()),
        ("once-tasks/", "check", "id", {once}),
        ("once-tasks/", "resize", "id", set()),
        ("dispatches/", "check", "number", {held}),
        ("dispatches/", "last", "number", set()),
    ):
        with subtests.test(path, step=step):
            joint = "&" if "?" in path else "?"
            found = api.get(f"/api/v1/{path}{joint}part_of={of[step]}").json()["results"]
            assert {each[key] for each in found} == wanted
            assert {each["part_of"] for each in found} <= {of[step]}
    assert len(archived) == 3


def test_bulk_run_is_over_the_jobs_of_a_step(mail: FrozenClock, api: Any) -> None:
    number = started(jobs("resize", [1, 2]))
    submit("mail", key="alone")
    part_of = step_of(number, "resize").pk
    asked = {"verb": "cancel", "filter": {"part_of": str(part_of)}, "reason": "no", "at_most": 9}
    made = api.post("/api/v1/jobs/bulk/", asked)
    assert (made.status_code, made.json()["filter"]) == (202, asked["filter"])
    carry_out(BulkRun.objects.get())
    assert Job.objects.get(key="alone").status == "ready"
    assert {*Job.objects.filter(part_of=part_of).values_list("status", flat=True)} == {"cancelled"}
