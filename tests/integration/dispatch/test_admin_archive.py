"""The archive of dispatches in the admin: to be read, and found from wherever a number stands."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import Executor
from tests.integration.dispatch.housekeeping import archived, ended

pytestmark = [pytest.mark.django_db, pytest.mark.both]

LIST = "admin:dispatch_archiveddispatch_changelist"
PAGE, LIVE_PAGE = "admin:dispatch_archiveddispatch_change", "admin:dispatch_dispatch_change"


@pytest.fixture
def number(alice: Executor) -> int:
    [number] = archived(title="Check the cold room")
    return number


def test_list_shows_it_newest_first(admin_client: Client, number: int) -> None:
    """S0.8."""
    [newer] = archived()
    page = admin_client.get(reverse(LIST))
    assert [row.pk for row in page.context["cl"].result_list] == sorted([number, newer])[::-1]
    assert "Check the cold room" in page.content.decode()


def test_filters_are_those_of_the_live_list(
    admin_client: Client, number: int, subtests: pytest.Subtests
) -> None:
    for asked, found in (
        ({"executor": "uid_alice"}, 1),
        ({"executor": "uid_nobody"}, 0),
        ({"source": "rotate", "task": "999"}, 1),
        ({"state": "succeeded"}, 1),
        ({"state": "open"}, 0),
    ):
        with subtests.test(asked=asked):
            page = admin_client.get(reverse(LIST), asked)
            assert len(page.context["cl"].result_list) == found


def test_links_to_either_page_lead_to_where_it_is(admin_client: Client, number: int) -> None:
    """S0.8: a link in the journal holds for as long as the dispatch is kept."""
    gone = admin_client.get(reverse(LIVE_PAGE, args=[number]))
    assert (gone.status_code, gone["Location"]) == (302, reverse(PAGE, args=[number]))
    assert "Check the cold room" in admin_client.get(gone["Location"]).content.decode()
    [live] = ended(executor_id=Executor.objects.get().pk)
    back = admin_client.get(reverse(PAGE, args=[live]))
    assert (back.status_code, back["Location"]) == (302, reverse(LIVE_PAGE, args=[live]))


def test_last_page_of_the_live_list_leads_there(admin_client: Client, number: int) -> None:
    lists = reverse("admin:dispatch_dispatch_changelist")
    live = admin_client.get(lists, {"executor": "uid_alice"})
    older = live.context["older_url"]
    assert older == f"{reverse(LIST)}?executor=uid_alice"
    assert older in live.content.decode()
    archive = admin_client.get(older)
    assert [row.pk for row in archive.context["cl"].result_list] == [number]
    assert archive.context["older_url"] == ""


def test_search_finds_it_by_its_number(admin_client: Client, number: int) -> None:
    page = admin_client.get(reverse("admin:search"), {"term": str(number)}, follow=True)
    assert "Check the cold room" in page.content.decode()
