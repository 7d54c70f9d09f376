"""Views of lists: kept, shared, begun with; they show what their reader may see."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common import saved_views
from apps.common.models import SavedView
from apps.jobs.models import JobScope
from apps.journal.models import JournalEntry
from tests.jobs import job_type, jobs
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"
VIEWS = f"{JOBS}views/"
FAILED = "status=failed&type=mail"


@pytest.fixture(autouse=True)
def mail() -> None:
    job_type()


def keep(client: Client, title: str = "Broken", query: str = FAILED, **given: str) -> Any:
    return client.post(f"{VIEWS}?{query}", {"do": "save", "title": title, **given}, follow=True)


def do(client: Client, verb: str, view: SavedView, query: str = "", **given: str) -> Any:
    data = {"do": verb, "view": view.pk, "title": view.title, **given}
    return client.post(f"{VIEWS}?{query}", data, follow=True)


def links(client: Client, address: str = f"{JOBS}?_view=none") -> dict[str, str]:
    """The views above a list by what they say, each with where it leads."""
    page = client.get(address).content.decode()
    found = re.findall(r'<a class="chip view-link" href="([^"]*)"[^>]*>(.*?)</a>', page)
    return {" ".join(re.sub("<[^>]*>", " ", text).split()): unescape(url) for url, text in found}


def test_view_is_the_address_of_its_list(admin_client: Client) -> None:
    page = keep(admin_client, query=f"{FAILED}&p=3&before=77&key=&_cols=key,took&e=1")
    assert "The view “Broken” was saved." in text_of(page)
    url = "?_cols=key,took&status=failed&type=mail"
    assert page.redirect_chain[-1][0] == JOBS + url
    assert links(admin_client) == {"Broken": url}
    assert links(admin_client, "/admin/jobs/archivedjob/") == {}
    chosen = admin_client.get(JOBS + "?type=mail&user=&status=failed&_cols=key,took")
    assert [link.is_chosen for link in chosen.context["views"].links] == [True]


def test_list_without_address_begins_with_the_default_view(admin_client: Client) -> None:
    assert admin_client.get(JOBS).status_code == 200
    keep(admin_client, default="on")
    keep(admin_client, "Waiting", "status=ready", default="on")
    answer: Any = admin_client.get(JOBS)
    assert (answer.status_code, answer["Location"]) == (302, f"{JOBS}?status=ready")
    assert admin_client.get(f"{JOBS}?_view=none").status_code == 200
    [waiting] = SavedView.objects.filter(is_default=True)
    assert waiting.title == "Waiting"
    do(admin_client, "change", waiting)
    assert admin_client.get(JOBS).status_code == 200


def test_ways_to_the_plain_list_lead_past_the_default_view(admin_client: Client) -> None:
    keep(admin_client, default="on")
    page = admin_client.get(f"{JOBS}?status=failed").content.decode()
    assert 'href="?"' not in page
    assert page.count('href="?_view=none"') >= 3, "the tab, the chip and the link beside the views"
    numbers = jobs(60)
    older = admin_client.get(f"{JOBS}?_view=none").context["cl"].older_url
    assert older == f"?before={numbers[10]}"


def test_default_view_of_a_filter_that_is_no_more_ends_at_the_plain_list(
    admin_client: Client,
) -> None:
    for query in ("gone=1", "status__regex=.", "_view=9"):
        SavedView.objects.all().delete()
        owner = User.objects.get(username="admin")
        SavedView.objects.create(
            owner=owner, list="jobs_job", title="Old", query=query, is_default=True
        )
        page: Any = admin_client.get(JOBS, follow=True)
        assert page.redirect_chain[-1][0] == f"{JOBS}?e=1", query
        text = text_of(page)
        assert "This list does not have the filters of that address" in text
        assert (f"This list has no filter '{query.split('=')[0]}'." in text) == (query != "_view=9")


@pytest.mark.both
def test_owner_renames_replaces_and_deletes(admin_client: Client) -> None:
    keep(admin_client)
    view = SavedView.objects.get()
    assert "status=ready" in text_of_forms(admin_client.get(f"{VIEWS}?status=ready"))
    do(admin_client, "change", view, title="  Mails that   failed ")
    view.refresh_from_db()
    assert (view.title, view.query) == ("Mails that failed", FAILED)
    do(admin_client, "replace", view, "status=ready")
    view.refresh_from_db()
    assert (view.title, view.query) == ("Mails that failed", "status=ready")
    assert "The view “Mails that failed” was deleted." in text_of(do(admin_client, "delete", view))
    assert not SavedView.objects.exists()


def text_of_forms(page: Any) -> str:
    return " ".join(re.findall(r'<form[^>]*action="([^"]*)"', page.content.decode()))


@pytest.mark.both
def test_mistake_is_named_and_nothing_is_kept(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    keep(admin_client)
    for given, said in [
        ({"title": " "}, "Give the view a title of at most 60 characters."),
        ({"title": "x" * 61}, "Give the view a title"),
        ({"title": "a\0b"}, "Give the view a title"),
        ({"title": "Broken"}, "You have a view 'Broken' of this list; choose another title."),
        ({"query": ""}, "choose filters or columns first"),
        ({"query": "&".join(f"f{n}={'x' * 400}" for n in range(6))}, "too long to be saved"),
    ]:
        with subtests.test(given=given):
            page = keep(admin_client, **{"title": "Other", "query": "status=ready", **given})
            assert page.status_code == 400
            assert said in text_of(page)
            assert SavedView.objects.count() == 1


@pytest.mark.both
def test_views_of_one_person_are_limited(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)
    for title in "ab":
        keep(admin_client, title)
    page = keep(admin_client, "c")
    assert page.status_code == 400
    assert "You have 2 views; delete one" in text_of(page)


# --- other people ---------------------------------------------------------------------------------
def test_shared_view_shows_its_reader_only_what_they_may_see(
    role_client: Any, role_user: Any
) -> None:
    job_type("sms")
    failed = {"status": "failed", "error_key": "e" * 32}
    [own], [_other] = jobs(1, "mail", **failed), jobs(1, "sms", **failed)
    olga = role_client("operator")
    keep(olga, "Mine", "status=ready")
    keep(olga, "Broken", "status=failed", shared="on", default="on")
    JobScope.objects.create(operator=role_user("viewer"), type="mail")
    reader = role_client("viewer")
    assert links(reader) == {"Broken operator": "?status=failed"}
    page = reader.get(f"{JOBS}?status=failed")
    assert [row.pk for row in page.context["cl"].result_list] == [own]
    assert reader.get(JOBS).status_code == 200, "another's default is not that of the reader"
    keep(reader, "Own", "type=mail")
    assert [*links(reader)] == ["Own", "Broken operator"]


def test_nobody_changes_the_view_of_another(role_client: Any, admin_client: Client) -> None:
    keep(admin_client, shared="on")
    view = SavedView.objects.get()
    for verb in ("change", "replace", "delete"):
        page = do(role_client("configurer"), verb, view, "status=ready", title="Hers")
        assert page.status_code == 400
        assert "You have no such view of this list any more." in text_of(page)
    assert SavedView.objects.get().title == "Broken"
    assert "Broken" not in text_of(role_client("configurer").get(VIEWS))


def test_viewer_keeps_views_and_shares_none(role_client: Any) -> None:
    viewer = role_client("viewer")
    keep(viewer)
    assert "Share with all" not in text_of(viewer.get(f"{JOBS}?{FAILED}"))
    page = keep(viewer, "For all", shared="on")
    assert page.status_code == 400
    assert "not share them" in text_of(page)
    assert [*SavedView.objects.values_list("title", "shared")] == [("Broken", False)]


def test_views_are_of_those_who_see_the_list(role_client: Any) -> None:
    url = reverse("admin:auth_user_views")
    assert role_client("viewer").get(url).status_code == 403
    assert role_client("viewer").post(f"{VIEWS}?{FAILED}", {"do": "other"}).status_code == 403


def test_journal_has_what_concerns_others(admin_client: Client) -> None:
    keep(admin_client)
    view = SavedView.objects.get()
    do(admin_client, "change", view, title="Failed")
    assert not JournalEntry.objects.filter(event__startswith="view_").exists()
    do(admin_client, "change", view, shared="on")
    do(admin_client, "change", view, shared="on")
    do(admin_client, "change", view, shared="on", title="Broken mails")
    do(admin_client, "delete", view)
    entries = JournalEntry.objects.filter(event__startswith="view_").order_by("pk")
    assert [entry.event for entry in entries] == ["view_shared", "view_changed", "view_unshared"]
    assert {entry.type_or_task for entry in entries} == {"admin"}
    assert {entry.actor for entry in entries} == {"admin:admin"}
    after = entries[1].data["after"]
    assert after == {"list": "jobs_job", "title": "Broken mails", "filters": FAILED}
    page = admin_client.get(reverse("admin:journal_journalentry_change", args=[entries[0].pk]))
    assert "View shared" in text_of(page)


# --- the head -------------------------------------------------------------------------------------
def test_head_costs_one_statement(admin_client: Client) -> None:
    mine = {"owner": User.objects.get(username="admin"), "list": "jobs_job", "shared": True}
    SavedView.objects.bulk_create(
        SavedView(title=f"View {n}", query=f"key=k{n}", **mine) for n in range(12)
    )
    sent = sent_by(lambda: admin_client.get(f"{JOBS}?status=failed"))
    assert len([sql for sql in sent if "savedview" in sql]) == 1
    views = admin_client.get(f"{JOBS}?status=failed").context["views"]
    assert (len(views.links), len(views.folded)) == (8, 4)


@pytest.mark.both
def test_own_views_come_before_however_many_others_share(
    admin_client: Client, role_client: Callable[[str], Client], monkeypatch: Any
) -> None:
    monkeypatch.setattr(saved_views, "MAX_SHOWN", 2)
    for title in ("Alpha", "Beta"):
        keep(admin_client, title, f"key={title}", shared="on")
    operator = role_client("operator")
    keep(operator, "Zulu", default="on")
    assert operator.get(JOBS)["Location"] == f"{JOBS}?{FAILED}"
    assert [link.split()[0] for link in links(operator)] == ["Zulu", "Alpha"]
