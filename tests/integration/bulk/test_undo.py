"""Undo: state and time come back where a row has not moved; the others stay and are listed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services import undo as services
from apps.bulk.services.targets import TARGETS
from apps.bulk.services.undo import Deed
from apps.common import clock
from apps.common.errors import Conflict
from apps.common.ids import next_id
from apps.dispatch.models import OnceTask, RotateTask
from apps.jobs.models import Job, JobScope, bounds_of
from apps.jobs.services import control
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import again, carry_out
from tests.jobs import job_type, jobs
from tests.pages import change_url, form_of, text_of

pytestmark = pytest.mark.django_db
LATE = "This was more than 10 minutes ago"
# What an act changes beside: counted, or of the moment.
ASIDE = {"version", "updated_at", "updated_by"}


def columns(row: Any) -> dict[str, Any]:
    found = type(row).objects.values().get(pk=row.pk)
    return {name: value for name, value in found.items() if name not in ASIDE}


def act(client: Client, model: str, name: str, numbers: list[int], **more: str) -> Any:
    given = {"ids": ",".join(map(str, numbers)), "reason": "Wrong list", **more}
    url = reverse(f"admin:{model}_act", args=[name])
    answer = client.post(url, given, follow=True)
    assert answer.status_code == 200, answer
    return answer


def undo(client: Client, answer: Any) -> Any:
    return client.post(answer.context["undo_bar"].url, follow=True)


def test_every_verb_says_whether_and_how_it_is_undone() -> None:
    for target in TARGETS.values():
        for verb in target.verbs.values():
            assert verb.event and verb.undo, verb


def test_forms_that_change_a_row_offer_to_take_it_back(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    job_type()
    task = factories.once_task(factories.user(), "Till")
    [number] = jobs(run_at=clock.now() + timedelta(days=1))
    forms: dict[str, tuple[Any, str, dict[str, str]]] = {
        "task": (task, change_url(task), {}),
        "job": (Job.objects.get(), reverse("admin:jobs_job_edit", args=[number]), {"reason": "x"}),
    }
    for name, (row, url, more) in forms.items():
        with subtests.test(name):
            before = columns(row)
            sent = form_of(admin_client.get(url), "priority") | {"priority": "55", **more}
            answer = admin_client.post(url, sent, follow=True)
            bar = answer.context["undo_bar"]
            assert "Priority 0 → 55." in bar.said and [*answer.context["messages"]] == []
            asked = admin_client.get(bar.url)
            assert "changed, by admin: 1 row " in text_of(asked).replace("edited", "changed")
            assert "Undone: 1 row." in text_of(undo(admin_client, answer))
            assert columns(row) == before
            # Nothing was changed, so there is nothing to take back.
            sent = form_of(admin_client.get(url), "priority") | more
            assert admin_client.post(url, sent, follow=True).context["undo_bar"] is None


@pytest.mark.parametrize("name", ["cancel", "run_now", "mark_done"])
def test_jobs_get_back_their_state_and_their_time_in_one_click(
    admin_client: Client, name: str, frozen_clock: FrozenClock
) -> None:
    job_type()
    later = clock.now() + timedelta(hours=5)
    numbers = jobs(3, run_at=later, status="scheduled", priority=7)
    before = [columns(Job(pk=number)) for number in numbers]

    answer = act(admin_client, "jobs_job", name, numbers)
    assert "Undo" in text_of(answer)
    undo(admin_client, answer)

    assert [columns(Job(pk=number)) for number in numbers] == before
    assert JournalEntry.objects.filter(event="undone", person="admin:admin").count() == 3


@pytest.mark.both
def test_what_somebody_else_has_moved_stays_and_is_listed(admin_client: Client) -> None:
    job_type()
    later = clock.now() + timedelta(hours=5)
    kept, moved = jobs(2, run_at=later, status="scheduled")
    answer = act(admin_client, "jobs_job", "cancel", [kept, moved])
    control.retry(job=Job.objects.get(pk=moved), actor="admin:bob")

    report = undo(admin_client, answer)

    assert Job.objects.get(pk=kept).status == "scheduled"
    assert Job.objects.get(pk=moved).status == "ready"
    assert str(moved) in text_of(report) and "has changed since" in text_of(report)
    assert admin_client.get(reverse("admin:index")).context["undo_bar"] is None


def test_bar_is_there_for_ten_minutes_and_for_who_may_act(
    admin_client: Client, frozen_clock: FrozenClock, role_client: Callable[[str], Client]
) -> None:
    job_type()
    answer = act(admin_client, "jobs_job", "cancel", jobs(1))
    url = answer.context["undo_bar"].url
    assert role_client("viewer").post(url).status_code == 403

    frozen_clock.advance(minutes=9)
    assert admin_client.get(reverse("admin:index")).context["undo_bar"]
    frozen_clock.advance(minutes=2)
    assert not admin_client.get(reverse("admin:index")).context["undo_bar"]
    # Nor where the bar stands still, in another window.
    for answer in (admin_client.get(url, follow=True), admin_client.post(url, follow=True)):
        assert LATE in text_of(answer)
    assert Job.objects.get().status == "cancelled"


def test_run_and_activity_offer_it_for_ten_minutes(
    admin_client: Client, start: Callable[..., BulkRun], frozen_clock: FrozenClock
) -> None:
    job_type()
    jobs(2)
    run = start("cancel", {"type": "mail"})
    frozen_clock.advance(minutes=20)
    carry_out(run)
    page, activity = change_url(again(run)), reverse("activity")

    def offered(url: str) -> list[str]:
        return re.findall(r'href="(/admin/undo/[^"]*)"', admin_client.get(url).content.decode())

    frozen_clock.advance(minutes=9)
    [of_run], [of_acts] = offered(page), offered(activity)
    frozen_clock.advance(minutes=2)

    assert offered(page) == offered(activity) == []
    for url in (of_run, of_acts):
        assert LATE in text_of(admin_client.post(unescape(url), follow=True))
    mails = Job.objects.filter(type="mail")
    assert {*mails.values_list("status", flat=True)} == {"cancelled"}
    # That is no undo.
    assert "Retry now…" in text_of(admin_client.get(page))


def test_limited_people_take_back_only_what_they_see(
    admin_client: Client, role_client: Callable[[str], Client]
) -> None:
    for name in ("mail", "web"):
        job_type(name)
    [mine], [other] = jobs(1, "mail"), jobs(1, "web")
    url = act(admin_client, "jobs_job", "cancel", [mine, other]).context["undo_bar"].url
    operator = role_client("operator")
    person = User.objects.get(pk=operator.session["_auth_user_id"])
    JobScope.objects.create(operator=person, type="mail")

    text = text_of(operator.post(url, follow=True))

    assert str(other) not in text
    assert Job.objects.get(pk=mine).status == "ready"
    assert Job.objects.get(pk=other).status == "cancelled"


@pytest.mark.both
@pytest.mark.parametrize("model", [OnceTask, RotateTask])
def test_tasks_get_back_what_they_had(
    model: Any, admin_client: Client, subtests: pytest.Subtests
) -> None:
    make = factories.once_task if model is OnceTask else factories.rotation
    label = model._meta.label_lower.replace(".", "_")
    for name in ("pause", "delete_task", "shift"):
        with subtests.test(name=name):
            task = make(factories.user(f"uid_{name}"))
            before = columns(task)
            answer = act(admin_client, label, name, [task.pk], by="+2h30m")
            assert columns(task) != before
            undo(admin_client, answer)
            assert columns(task) == before


def test_run_is_undone_by_a_run_that_lists_what_has_moved(
    admin_client: Client, start: Callable[..., BulkRun]
) -> None:
    job_type()
    later = clock.now() + timedelta(hours=5)
    kept, moved = jobs(2, run_at=later, status="scheduled")
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    control.retry(job=Job.objects.get(pk=moved), actor="admin:bob")
    page = admin_client.get(reverse("admin:bulk_bulkrun_change", args=[run.pk]))
    buttons = {str(each.text): each.url for each in page.context["object_buttons"]}
    assert {"Undo…", "Retry now…"} <= buttons.keys()
    assert "get back their state" in text_of(admin_client.get(buttons["Undo…"]))

    admin_client.post(buttons["Undo…"])

    undone = BulkRun.objects.latest("pk")
    carry_out(undone)
    undone = again(undone)
    assert (undone.done, undone.skipped) == (1, 1)
    assert BulkRow.objects.get(run=undone, target=moved).why == "has changed since"
    assert Job.objects.get(pk=kept).run_at == later


def test_undo_takes_a_few_statements_for_many_rows(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    job_type()
    answer = act(admin_client, "jobs_job", "cancel", jobs(50))
    with django_assert_max_num_queries(40):
        admin_client.post(answer.context["undo_bar"].url)


@pytest.mark.both
def test_undo_and_another_act_at_once_never_both_take_the_row(
    racers: Callable[..., Any], admin_user: User
) -> None:
    job_type()
    numbers = jobs(6, run_at=clock.now() + timedelta(hours=5), status="scheduled")
    first = next_id()
    for number in numbers:
        control.cancel(job=Job.objects.get(pk=number), actor="admin:admin", reason="x")
    deed = Deed("jobs", "cancel", "admin:admin", first, next_id())

    def retry() -> int:
        done = 0
        for number in numbers:
            with suppress(Conflict):
                control.retry(job=Job.objects.get(pk=number), actor="admin:bob")
                done += 1
        return done

    undone, retried = racers(
        [lambda: services.undo(deed, actor="admin:admin", bounds=bounds_of(admin_user)), retry]
    ).results

    assert undone.done + retried == len(numbers)
    found = Job.objects.filter(pk__in=numbers)
    assert found.filter(status="scheduled").count() == undone.done
    assert found.filter(status="ready").count() == retried == len(undone.left)


def test_offer_of_a_later_act_stays_when_an_earlier_one_is_undone(admin_client: Client) -> None:
    """In two tabs: the first still shows its bar."""
    job_type()
    first, later = (act(admin_client, "jobs_job", "cancel", jobs(1)) for _ in range(2))
    url = later.context["undo_bar"].url
    assert undo(admin_client, first).context["undo_bar"].url == url
    assert undo(admin_client, later).context["undo_bar"] is None
