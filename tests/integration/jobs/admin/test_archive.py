"""The archive in the admin: its list, its pages, and the ways that lead there. S4.16."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.jobs.admin.archive import ArchivedJobAdmin
from apps.jobs.models import ArchivedJob, Job, JobScope, JobType
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.history import archived, ended, move
from tests.integration.jobs.admin.pages import LIST, buttons, page_of, shown
from tests.jobs import end, job_type, jobs, take
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail"), pytest.mark.both]

ARCHIVE = "/admin/jobs/archivedjob/"


def archive_page(client: Client, number: int) -> Any:
    return client.get(reverse("admin:jobs_archivedjob_change", args=[number]))


def act(client: Client, name: str, *numbers: int) -> Any:
    ids = ",".join(map(str, numbers))
    return client.post(f"{ARCHIVE}act/{name}/", {"ids": ids, "reason": "Shop closed"})


class TestList:
    def test_filters_find_by_index(self, admin_client: Client) -> None:
        """S4.16: also the jobs of a type that is deleted."""
        job_type("gone")
        [old] = archived(type="gone", key="order-7")
        [wrong] = archived(status="failed", error_key="e" * 32)
        JobType.objects.filter(name="gone").delete()
        for query, number in (
            ({"type": "gone"}, old),
            ({"key": "order-7"}, old),
            ({"q": "order-7"}, old),
            ({"q": str(wrong)}, wrong),
            ({"error_key": "e" * 32}, wrong),
            ({"status": "failed"}, wrong),
        ):
            assert shown(admin_client.get(ARCHIVE, query)) == [number], query

    def test_page_reads_as_often_for_many_rows(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ArchivedJobAdmin, "list_per_page", 3)
        archived(2)
        admin_client.get(ARCHIVE)

        def reads() -> int:
            with CaptureQueriesContext(connection) as queries:
                page = admin_client.get(ARCHIVE)
            assert len(shown(page)) == min(3, ArchivedJob.objects.count())
            for query in queries.captured_queries:
                assert "COUNT(" not in query["sql"]
                assert " OFFSET " not in query["sql"]
            return len(queries)

        few = reads()
        archived(20)
        assert reads() <= few


class TestPage:
    def test_shows_what_it_showed_before(self, admin_client: Client, mail: FrozenClock) -> None:
        """S4.16: attempts, error and history, and since when it is in the archive."""
        [number] = jobs(1, key="order-17")
        end(take(1)[0], "failed", error="no address", retry="never")
        mail.advance(days=8)
        move()
        page = archive_page(admin_client, number)
        text = text_of(page)
        for expected in (
            "Failed mail · order-17 · attempt 1 of 3",
            "in the archive since",
            "no address",
            "Attempts",
            "Submitted",
            "Moved to the archive",
        ):
            assert expected in text, expected
        assert buttons(page) == {"Retry", "Retry on host…"}

    def test_retry_leads_to_the_live_page(self, admin_client: Client) -> None:
        """S4.16."""
        [number] = archived(status="failed")
        answer = act(admin_client, "retry", number)
        page = admin_client.get(answer["Location"], follow=True)
        assert page.redirect_chain == [(reverse("admin:jobs_job_change", args=[number]), 302)]
        assert "1 job retried." in text_of(page)
        assert "Back from the archive" in text_of(page)


class TestWays:
    def test_page_of_a_job_leads_to_where_it_is(self, admin_client: Client) -> None:
        """S4.16: so links of failures, journal, search and mails stay right."""
        [number] = ended(status="failed")
        assert page_of(admin_client, number).status_code == 200
        there = archive_page(admin_client, number)
        assert there["Location"] == reverse("admin:jobs_job_change", args=[number])
        move()
        there = page_of(admin_client, number)
        assert there["Location"] == reverse("admin:jobs_archivedjob_change", args=[number])
        history = admin_client.get(reverse("admin:jobs_job_history", args=[number]))
        assert history["Location"] == there["Location"]
        assert page_of(admin_client, 7).status_code == 404

    def test_last_page_of_the_list_leads_to_older_ones(
        self, admin_client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S4.16: with the same filters, from a group of errors too."""
        monkeypatch.setattr("apps.jobs.admin.jobs.JobAdmin.list_per_page", 2)
        [old] = archived(status="failed", error_key="e" * 32, memo="no address")
        jobs(3, error_key="e" * 32)
        group = {"type": "mail", "error_key": "e" * 32, "lane": "fast"}
        first = admin_client.get(LIST, group)
        assert first.context["older_url"] == ""
        last = admin_client.get(
            first.context["cl"].older_url and LIST + first.context["cl"].older_url
        )
        assert "Older ones, in the archive" in text_of(last)
        Job.objects.all().delete()
        assert "Error: no address" in text_of(admin_client.get(LIST, group))
        assert shown(admin_client.get(last.context["older_url"])) == [old]

    def test_journal_of_a_limited_person_has_archived_jobs(
        self, role_client: Any, role_user: Any, mail: FrozenClock
    ) -> None:
        """S1.21: what they saw before, and nothing of others."""
        job_type("sms")
        mine, other = jobs(1, "sms"), jobs(1)
        for held in take(2, types=("mail", "sms")):
            end(held, "succeeded")
        JobScope.objects.create(operator=role_user("operator"), type="sms")
        client = role_client("operator")
        journal = reverse("admin:journal_journalentry_changelist")

        def subjects() -> set[int]:
            found = client.get(journal, {"source": "job"}).context["cl"].result_list
            return {entry.subject_id for entry in found}

        assert subjects() == {*mine}
        mail.advance(days=8)
        assert move() == 2
        assert subjects() == {*mine}
        assert JournalEntry.objects.filter(subject_id=other[0]).exists()

    def test_search_finds_by_number_and_key(self, admin_client: Client) -> None:
        """S4.16."""
        [number] = archived(key="order-1")
        archived(2, key="order-2")
        search = reverse("admin:search")
        for term in (str(number), "order-1"):
            answer = admin_client.get(search, {"term": term})
            assert answer["Location"] == reverse("admin:jobs_archivedjob_change", args=[number])
        page = admin_client.get(search, {"term": "order-2"})
        [group] = page.context["groups"]
        assert (group.title, len(group.hits)) == ("archive", 2)
