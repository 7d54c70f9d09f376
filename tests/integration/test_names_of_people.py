"""People by their titles where boxes that know only uids show them; nobody's to outsiders."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db.models import Max
from django.test import Client
from django.urls import reverse

from apps.alerts.admin.alerts import names_of
from apps.dispatch.admin.explain import explain_url
from apps.dispatch.models import Executor, OperatorScope
from apps.dispatch.services import executors, tasks
from apps.dispatch.services.handing import hand_over
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.jobs import job_type
from tests.pages import change_url, text_of
from tests.statements import is_read, sent_by

pytestmark = pytest.mark.django_db

ANN, BOB = "Ann Baker % <b>", "Bob العربية"
JOBS, ENTRIES = "/admin/jobs/job/", "/admin/journal/journalentry/"


@pytest.fixture
def pages() -> dict[str, str]:
    """By what they are the pages that show Ann, whose uid other boxes keep."""
    team = factories.group("gid_team", ["uid_ann", "uid_bob"], title="Shelf team")
    ann, bob = map(factories.member, ("uid_ann", "uid_bob"))
    for row, title in ((ann, ANN), (bob, BOB)):
        executors.update_executor(executor=row, changes={"title": title}, actor="admin:admin")
    task = factories.once_task(team, mode="multi", dispatch_times=1)
    held = callback.taken(ann)
    hand_over(dispatch=held, to=bob, actor="admin:admin", reason="ill")
    tasks.update_task(task=task, changes={"executor": ann}, actor="admin:admin")
    job_type("mail")
    job = factories.job("mail", user_id="uid_ann", key="letter")
    entry = JournalEntry.objects.filter(executor="uid_ann").latest("pk")
    return {
        "entries": ENTRIES,
        "entry": change_url(entry),
        "activity": reverse("activity"),
        "jobs": JOBS,
        "job": change_url(job),
        "why not": explain_url(executor="uid_ann", task=f"once:{task.pk}"),
        "why nothing": reverse("admin:dispatch_executor_why", args=[ann.pk]),
        "members": change_url(team),
        "history of the task": change_url(task),
        "hand-over": change_url(held),
    }


def test_titles_stand_on_every_page(
    admin_client: Client, pages: dict[str, str], subtests: pytest.Subtests
) -> None:
    for name, url in pages.items():
        with subtests.test(name):
            assert ANN in text_of(admin_client.get(url))
    assert f"{BOB} (uid_bob)" in text_of(admin_client.get(pages["hand-over"]))
    why = admin_client.get(pages["why not"]).context["lines"]
    assert ANN in why[0].detail and "uid_ann" not in why[0].detail
    assert f"Shelf team (gid_team) → {ANN} (uid_ann)" in text_of(
        admin_client.get(pages["history of the task"])
    )


def test_outsiders_read_no_title(
    client: Client,
    role_user: Callable[[str], User],
    pages: dict[str, str],
    subtests: pytest.Subtests,
) -> None:
    user = role_user("operator")
    ann = factories.member("uid_ann")
    OperatorScope.objects.create(operator=user, executor=ann)
    client.force_login(user)
    for name, url in pages.items():
        with subtests.test(name):
            assert BOB not in text_of(client.get(url, follow=True))
    assert ANN in text_of(client.get(pages["jobs"]))


@pytest.mark.both
def test_many_people_are_read_in_as_many_statements_as_few(admin_client: Client) -> None:
    job_type("mail")
    counts: dict[str, list[int]] = {JOBS: [], ENTRIES: []}
    for number in range(8):
        factories.job("mail", user_id=factories.user(f"uid_{number}", title=f"N {number}").name)
        if number in (1, 7):
            for url, found in counts.items():
                sent = sent_by(lambda url=url: admin_client.get(url))
                found.append(sum(is_read(Executor, sql) for sql in sent))
    # Of entries those who act, and those whom they are about.
    assert counts == {JOBS: [1, 1], ENTRIES: [2, 2]}


@pytest.mark.both
def test_alerts_name_tasks_by_their_titles() -> None:
    task = factories.once_task(factories.user(), title="Count")
    gone = (Executor.objects.aggregate(Max("pk"))["pk__max"] or 0) + 1_000_000
    named = names_of([f"once_task:{task.pk}", f"once_task:{gone}", "job_type:mail"])
    assert [*named.values()] == [f"Count ({task.pk})", str(gone), "mail"]
