"""The archives of jobs, dispatches and tasks in the admin: to be read, found from wherever a number
stands, and left again. S0.8, S4.16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from apps.common.admin.html import page_url
from apps.dispatch.models import ArchivedTask, Executor, OnceTask
from apps.dispatch.services import tasks
from apps.jobs.models import Job, JobScope, JobType
from apps.journal.models import JournalEntry
from apps.schedules.services import schedules
from tests import factories, history
from tests.frozen import FrozenClock
from tests.integration.dispatch import housekeeping
from tests.integration.jobs.admin.pages import buttons, shown
from tests.jobs import end, job_type, jobs, take
from tests.pages import text_of

pytestmark = pytest.mark.django_db

JOBS, JOB_ARCHIVE = "jobs_job", "jobs_archivedjob"
DISPATCHES, DISPATCH_ARCHIVE = "dispatch_dispatch", "dispatch_archiveddispatch"


@pytest.fixture(autouse=True)
def begun(alice: Executor) -> None:
    job_type("mail")


def lists(kind: str) -> str:
    return reverse(f"admin:{kind}_changelist")


def page(kind: str, number: int) -> str:
    return reverse(f"admin:{kind}_change", args=[number])


class Kind(NamedTuple):
    """What goes to an archive, by the names of its pages."""

    live: str
    archive: str
    ended: Callable[..., list[int]]
    archived: Callable[..., list[int]]
    filters: tuple[tuple[dict[str, str], int], ...]


# Each filter, and whether it finds the first or the second of two rows, or none.
KINDS = {
    "jobs": Kind(
        *(JOBS, JOB_ARCHIVE, history.ended, history.archived),
        (
            ({"type": "gone"}, 0),
            ({"key": "order-7"}, 0),
            ({"q": "order-7"}, 0),
            ({"error_key": "e" * 32}, 1),
            ({"status": "failed"}, 1),
            ({"status": "cancelled"}, 2),
        ),
    ),
    "dispatches": Kind(
        *(DISPATCHES, DISPATCH_ARCHIVE, housekeeping.ended, housekeeping.archived),
        (
            ({"source": "rotate", "task": "998"}, 0),
            ({"state": "failed"}, 1),
            ({"state": "open"}, 2),
            ({"executor": "uid_nobody"}, 2),
        ),
    ),
}
FACTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "jobs": ({"type": "gone", "key": "order-7"}, {"status": "failed", "error_key": "e" * 32}),
    "dispatches": ({"task": 998}, {"state": "failed"}),
}


@pytest.mark.both
@pytest.mark.parametrize("name", KINDS)
def test_filters_are_those_of_the_live_list(
    name: str, admin_client: Client, subtests: pytest.Subtests
) -> None:
    """Newest first; also the jobs of a type that is deleted."""
    kind = KINDS[name]
    job_type("gone")
    [first], [second] = (kind.archived(**facts) for facts in FACTS[name])
    JobType.objects.filter(name="gone").delete()
    assert shown(admin_client.get(lists(kind.archive))) == sorted([first, second])[::-1]
    for query, place in (*kind.filters, ({"q": str(second)}, 1)):
        with subtests.test(query=query):
            found = shown(admin_client.get(lists(kind.archive), query))
            assert found == [first, second, None][place : place + 1] or (place, found) == (2, [])


@pytest.mark.parametrize("name", KINDS)
def test_links_to_either_page_lead_to_where_it_is(name: str, admin_client: Client) -> None:
    """So links of failures, journal, search and mails hold for as long as it is kept."""
    kind = KINDS[name]
    [old], [live] = kind.archived(), kind.ended()
    for number, there in ((old, kind.archive), (live, kind.live)):
        for other in (kind.live, kind.archive):
            answer = admin_client.get(page(other, number))
            leads = (302, page(there, number)) if other != there else (200, None)
            assert (answer.status_code, answer.get("Location")) == leads
    history_of = reverse(f"admin:{kind.live}_history", args=[old])
    assert admin_client.get(history_of)["Location"] == page(kind.archive, old)
    assert admin_client.get(page(kind.live, 7)).status_code == 404


def test_link_to_a_task_holds_when_it_has_gone(admin_client: Client, alice: Executor) -> None:
    number = factories.archived_task("once", alice)
    there = page("dispatch_archivedtask", ArchivedTask.objects.get().pk)
    assert admin_client.get(page("dispatch_oncetask", number))["Location"] == there
    text = text_of(admin_client.get(there))
    assert "Check the old shelf" in text
    assert "Task created" in text
    found = admin_client.get(reverse("admin:search"), {"term": str(number)}, follow=True)
    assert there in found.content.decode() + str(found.redirect_chain)


@pytest.mark.parametrize("name", KINDS)
def test_last_page_of_the_live_list_leads_to_older_ones(name: str, admin_client: Client) -> None:
    """With the same filters."""
    kind, query = KINDS[name], {"jobs": "type=mail", "dispatches": "executor=uid_alice"}[name]
    [number] = kind.archived()
    live = admin_client.get(f"{lists(kind.live)}?{query}")
    older = live.context["older_url"]
    assert older == f"{lists(kind.archive)}?{query}"
    assert older in live.content.decode()
    assert "Older ones" in text_of(live)
    assert shown(admin_client.get(older)) == [number]


def test_only_the_last_page_of_a_group_of_errors_leads_there(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.jobs.admin.jobs.JobAdmin.list_per_page", 2)
    [old] = history.archived(status="failed", error_key="e" * 32, memo="no address")
    jobs(3, error_key="e" * 32)
    group = {"type": "mail", "error_key": "e" * 32, "lane": "fast"}
    first = admin_client.get(lists(JOBS), group)
    assert first.context["older_url"] == ""
    last = admin_client.get(lists(JOBS) + first.context["cl"].older_url)
    Job.objects.all().delete()
    assert "Error: no address" in text_of(admin_client.get(lists(JOBS), group))
    assert shown(admin_client.get(last.context["older_url"])) == [old]


def test_search_finds_by_number_and_key(admin_client: Client) -> None:
    [number], [dispatch] = history.archived(key="order-1"), housekeeping.archived()
    history.archived(2, key="order-2")
    for term, there in (
        (str(number), page(JOB_ARCHIVE, number)),
        ("order-1", page(JOB_ARCHIVE, number)),
        (str(dispatch), page(DISPATCH_ARCHIVE, dispatch)),
    ):
        assert admin_client.get(reverse("admin:search"), {"term": term})["Location"] == there
    [group] = admin_client.get(reverse("admin:search"), {"term": "order-2"}).context["groups"]
    assert (group.title, len(group.hits)) == ("older jobs", 2)


def test_page_of_a_job_shows_what_it_showed_before(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """Attempts, error and history, and since when it is in the archive; a retry leads back."""
    [number] = jobs(1, key="order-17")
    end(take(1)[0], "failed", error="no address", retry="never")
    frozen_clock.advance(days=8)
    history.move()
    shown_there = admin_client.get(page(JOB_ARCHIVE, number))
    text = text_of(shown_there)
    for expected in (
        "Failed mail · order-17 · try 1 of 3",
        *(
            "among the older ones since",
            "no address",
            "Tries",
            "Submitted",
            "Moved to the older ones",
        ),
    ):
        assert expected in text, expected
    again = {"Retry with another context…", "Submit again…"}
    assert buttons(shown_there) == {"Retry", "Retry on host…", *again}

    sent = {"ids": str(number), "reason": "Shop closed"}
    back = admin_client.post(f"{lists(JOB_ARCHIVE)}act/retry/", sent, follow=True)

    assert back.redirect_chain[-1] == (page(JOBS, number), 302)
    assert "1 job retried." in text_of(back)
    assert "Back from the older ones" in text_of(back)


def test_journal_of_a_limited_person_has_archived_jobs(
    role_client: Any, role_user: Any, frozen_clock: FrozenClock
) -> None:
    """S1.21: what they saw before, and nothing of others."""
    job_type("sms")
    mine, other = jobs(1, "sms"), jobs(1)
    for held in take(2, types=("mail", "sms")):
        end(held, "succeeded")
    JobScope.objects.create(operator=role_user("operator"), type="sms")
    client = role_client("operator")

    def subjects() -> set[int]:
        found = client.get(lists("journal_journalentry"), {"source": "job"})
        return {entry.subject_id for entry in found.context["cl"].result_list}

    assert subjects() == {*mine}
    frozen_clock.advance(days=8)
    assert history.move() == 2
    assert subjects() == {*mine}
    assert JournalEntry.objects.filter(subject_id=other[0]).exists()


def test_task_is_restored_with_a_reason(admin_client: Client, alice: Executor) -> None:
    """S0.8: under its number, and paused."""
    number = factories.archived_task("once", alice)
    row = ArchivedTask.objects.get()
    url = f"{lists('dispatch_archivedtask')}act/restore/"
    assert "and paused" in text_of(admin_client.get(f"{url}?ids={row.pk}"))
    refused = admin_client.post(url, {"ids": row.pk, "reason": " "})
    assert refused.status_code == 200
    assert not OnceTask.objects.exists()

    done = admin_client.post(url, {"ids": row.pk, "reason": "The shop asks again"}, follow=True)

    assert "1 task restored; it is paused." in text_of(done)
    task = OnceTask.objects.get()
    assert (task.pk, task.status, ArchivedTask.objects.exists()) == (number, "paused", False)
    entry = JournalEntry.objects.get(event="restored")
    assert (entry.actor, entry.reason) == ("admin:admin", "The shop asks again")


def test_params_and_contexts_read_by_their_titles(
    admin_client: Client, alice: Executor, subtests: pytest.Subtests
) -> None:
    """On the pages of what nobody edits any more."""
    schema = {"type": "object", "properties": {"shop": {"title": "Which shop", "type": "string"}}}
    planned = {"params": {"shop": "Canal"}, "template": factories.template(schema=schema)}
    deleted = factories.once_task(alice, **planned)
    tasks.delete_task(task=deleted, actor="admin:o")
    archived = ArchivedTask.objects.get(task=factories.archived_task("once", alice))
    archived.body |= {"params": planned["params"], "template_id": deleted.template_id}
    archived.save()
    job_type("mail", params_schema=schema)
    schedule = factories.schedule("mail", context={"shop": "Canal"})
    schedules.delete_schedule(schedule=schedule, actor="admin:o", reason="x")
    for name, row in (("oncetask", deleted), ("archivedtask", archived), ("schedule", schedule)):
        with subtests.test(name):
            page = admin_client.get(page_url(f"{row._meta.app_label}_{name}", row.pk))
            assert "Which shop Canal" in text_of(page)
