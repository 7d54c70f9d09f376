"""What is kept in a session stays when other tabs of the same person change it, or end it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.admin import actions
from taskplatform.site import PlatformAdminSite
from tests.jobs import job_type, jobs
from tests.pages import text_of

pytestmark = pytest.mark.django_db

SAVED = "Your settings were saved."
During = Callable[[Callable[[], Any]], None]


def cancel(client: Client) -> Any:
    [number] = jobs(1, run_at=clock.now() + timedelta(hours=1), status="scheduled")
    url = reverse("admin:jobs_job_act", args=["cancel"])
    return client.post(url, {"ids": number, "reason": "Wrong list"})


def choose_zone(client: Client) -> Any:
    return client.post(reverse("preferences"), {"time_zone": "Asia/Tokyo", "shortcuts": "on"})


def home(client: Client) -> Any:
    return client.get(reverse("admin:index"))


def other_tab(client: Client) -> Client:
    tab = Client()
    tab.cookies.update(client.cookies)
    return tab


@pytest.fixture
def during_an_act(monkeypatch: pytest.MonkeyPatch) -> During:
    """Does something while an act of somebody is done, and its answer is not."""

    def during(do: Callable[[], Any]) -> None:
        report = actions._report

        def slow(*given: Any) -> Any:
            monkeypatch.setattr(actions, "_report", report)
            do()
            return report(*given)

        monkeypatch.setattr(actions, "_report", slow)

    return during


@pytest.mark.both
def test_act_that_takes_long_keeps_what_another_tab_has_chosen_and_says(
    admin_client: Client, during_an_act: During
) -> None:
    job_type()
    tab = other_tab(admin_client)
    during_an_act(lambda: choose_zone(tab))
    cancel(admin_client)
    page = home(admin_client)
    assert "Undo" in text_of(page) and SAVED in text_of(page)
    assert 'value="Asia/Tokyo"' in admin_client.get(reverse("preferences")).content.decode()
    assert SAVED not in text_of(home(tab))


def test_page_that_shows_a_message_leaves_what_comes_meanwhile(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_type()
    tab = other_tab(admin_client)
    saved = choose_zone(admin_client)
    draw = PlatformAdminSite.each_context

    def slow(site: Any, request: Any) -> Any:
        context = draw(site, request)
        monkeypatch.setattr(PlatformAdminSite, "each_context", draw)
        choose_zone(tab)
        cancel(tab)
        return context

    monkeypatch.setattr(PlatformAdminSite, "each_context", slow)
    assert text_of(admin_client.get(saved["Location"])).count(SAVED) == 1
    page = text_of(home(tab))
    assert "Undo" in page and page.count(SAVED) == 1


def test_act_is_answered_when_another_tab_signs_out_meanwhile(
    admin_client: Client, during_an_act: During
) -> None:
    job_type()
    tab = other_tab(admin_client)
    during_an_act(lambda: tab.post(reverse("admin:logout")))
    answer = cancel(admin_client)
    assert answer.status_code == 302
    # Nobody is signed in by it again.
    asked = admin_client.get(answer["Location"])
    assert asked.status_code == 302
    assert asked["Location"].startswith(str(settings.LOGIN_URL))


@pytest.mark.both
def test_of_changes_at_the_same_moment_none_is_lost(racers: Any) -> None:
    engine = import_module(settings.SESSION_ENGINE)
    made = engine.SessionStore()
    made["gone"] = made["stays"] = 1
    made.save()

    def change(number: int) -> None:
        mine = engine.SessionStore(made.session_key)
        mine[f"key-{number}"] = number
        mine.pop("gone", None)
        mine.save()

    race = racers([lambda number=number: change(number) for number in range(6)])
    assert race.results == [None] * 6
    kept = engine.SessionStore(made.session_key)
    assert {*kept.keys()} == {"stays", *(f"key-{number}" for number in range(6))}
