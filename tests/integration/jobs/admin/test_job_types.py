"""Job types in the admin: settings, pause, breaker, who serves them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.jobs.models import JobType, TypeState
from apps.jobs.rules import breaker
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.jobs.admin.pages import TYPES, buttons, now_url
from tests.jobs import job_type, jobs, take
from tests.pages import change_url, form_of, nothing_drawn, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

ADD = f"{TYPES}add/"


def act(client: Client, name: str, made: JobType, **data: str) -> Any:
    data = {"ids": str(made.pk), "reason": "CRM is down", **data}
    return client.post(f"{TYPES}act/{name}/", data)


# --- settings -----------------------------------------------------------------------------------
def test_type_is_made_and_changed_by_a_configurer(role_client: Any) -> None:
    client = role_client("configurer")
    form = {**form_of(client.get(ADD), "name"), "name": "mail", "stages": "pack\r\nsend"}
    assert client.post(ADD, {**form, "allowed_hosts": "host-a"}).status_code == 302
    made = JobType.objects.get()
    assert (made.name, made.stages, made.allowed_hosts) == ("mail", ["pack", "send"], ["host-a"])
    form = form_of(client.get(change_url(made)), "max_attempts")
    # Its name is fixed once it is made.
    assert "name" not in form
    form |= {"name": "other", "max_attempts": "7", "max_running": "2"}
    client.post(change_url(made), form)
    made.refresh_from_db()
    assert (made.max_attempts, made.max_running, made.stages) == (7, 2, ["pack", "send"])
    assert made.name == "mail"
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, entry.actor) == ("type_changed", "admin:configurer")
    text = text_of(client.get(f"{TYPES}{made.pk}/history/"))
    assert "maximum attempts 3 → 7" in text
    assert "Job type created" in text


def test_wrong_setting_is_shown_beside_its_field(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    made = job_type()
    form = form_of(admin_client.get(change_url(made)), "max_attempts")
    for wrong in (
        {"max_attempts": "0"},
        {"retry_jitter": "1.5"},
        {"weight": "1001"},
        {"params_schema": "{"},
        {"params_schema": '{"type": 5}'},
        {"default_priority": "101"},
        {"max_processing_seconds": "0"},
        {"lane": "lightning"},
        # All mistakes are shown at once.
        {"max_attempts": "0", "weight": "0"},
    ):
        with subtests.test(wrong=wrong), nothing_drawn():
            page: Any = admin_client.post(change_url(made), {**form, **wrong})
            assert page.status_code == 200
            assert wrong.keys() <= set(page.context_data["adminform"].form.errors)
            assert JobType.objects.get().version == made.version


def test_type_with_jobs_is_not_deleted(admin_client: Client) -> None:
    made = job_type()
    jobs()
    url = f"{TYPES}{made.pk}/delete/"
    for page in (admin_client.get(url), admin_client.post(url, {"post": "yes"})):
        assert "The type still has jobs; ended ones count until" in text_of(page)
    assert JobType.objects.exists()
    spare = job_type("spare")
    admin_client.post(f"{TYPES}{spare.pk}/delete/", {"post": "yes"})
    assert not JobType.objects.filter(name="spare").exists()
    assert JournalEntry.objects.latest("id").event == "type_deleted"


# --- pause and breaker --------------------------------------------------------------------------
def test_pause_until_and_resume(role_client: Any) -> None:
    """S4.19: with a reason, and by itself over again."""
    client = role_client("operator")
    made = job_type()
    assert "Resume" not in buttons(client.get(now_url(made)))
    past = act(client, "pause", made, until="2026-03-02T08:00")
    expected = "2026-03-02 08:00:00 UTC is past; choose a later time."
    assert past.context["form"].errors == {"until": [expected]}
    assert "CRM is down" in past.content.decode()
    act(client, "pause", made, until="2026-03-02T12:00")
    made.refresh_from_db()
    assert made.paused
    assert made.paused_until.isoformat() == "2026-03-02T12:00:00+00:00"
    page = client.get(now_url(made))
    assert "mail paused until 2026-03-02 12:00:00 UTC." in text_of(page)
    assert "Paused until 2026-03-02 12:00:00 UTC in 3 h 0 min : CRM is down" in text_of(page)
    assert buttons(page) == {"Resume"}
    assert "Paused" in text_of(client.get(TYPES))
    jobs()
    assert take() == []
    act(client, "resume", made)
    assert len(take()) == 1
    assert "Nothing was left to do" in text_of(client.get(act(client, "resume", made)["Location"]))


def test_breaker_is_shown_and_closed_by_hand(role_client: Any) -> None:
    """S4.19: visible, and overridable."""
    client = role_client("operator")
    made = job_type(breaker_enabled=True, breaker_open_seconds=30)
    TypeState.objects.create(
        type="mail", breaker=breaker.OPEN, breaker_since=clock.now() - timedelta(seconds=10)
    )
    page = client.get(now_url(made))
    assert "Breaker Open first probe 2026-03-02 09:00:20 UTC in 20 s" in text_of(page)
    assert "Breaker open" in text_of(client.get(TYPES))
    act(client, "reset_breaker", made)
    assert TypeState.objects.get().breaker == breaker.CLOSED
    assert JournalEntry.objects.latest("id").event == "breaker_reset"
    assert "Breaker Closed" in text_of(client.get(now_url(made)))


def test_settings_are_for_configurers_alone(role_client: Any) -> None:
    made = job_type()
    for role in ("viewer", "operator"):
        answer = role_client(role).post(change_url(made), {"max_attempts": "9"})
        assert answer.status_code == 403, role
    assert JobType.objects.get().max_attempts == 3


# --- how it stands ------------------------------------------------------------------------------
def test_type_that_no_live_worker_serves_is_named(admin_client: Client) -> None:
    """S1.5, S1.19: lost, ended and foreign workers run nothing."""
    for name in ("mail", "web", "crm", "scan"):
        job_type(name)
    job_type("bound", allowed_hosts=["host-x"])
    factories.worker("host-a:0", types=["mail"])
    long_ago = clock.now() - timedelta(seconds=600)
    factories.worker("host-a:1", types=["web"], last_heartbeat_at=long_ago)
    factories.worker("host-a:2", types=["crm"], state="gone")
    factories.worker("host-a:3", types=["bound"])
    for url in (TYPES, reverse("admin:jobs_worker_changelist")):
        page = admin_client.get(url)
        assert [made.name for made in page.context["unserved"]] == ["bound", "crm", "scan", "web"]
        assert "No live worker runs these types" in text_of(page)
    page = admin_client.get(now_url(JobType.objects.get(name="web")))
    assert "No live worker runs jobs of type web" in text_of(page)
    served = text_of(admin_client.get(now_url(JobType.objects.get(name="mail"))))
    assert "Workers: host-a:0" in served


def test_type_for_workers_over_http_misses_one_only_while_jobs_wait(admin_client: Client) -> None:
    """S1.5: such workers come and go with their work."""
    made = job_type("video", handler="")
    for url in (TYPES, reverse("admin:jobs_worker_changelist")):
        assert admin_client.get(url).context["unserved"] == []
    assert "No live worker runs jobs of type video" in text_of(admin_client.get(now_url(made)))

    jobs(1, "video", affinity_host="pi-1")

    for url in (TYPES, reverse("admin:jobs_worker_changelist")):
        page = admin_client.get(url)
        assert [each.name for each in page.context["unserved"]] == ["video"]
        assert f'{TYPES}handlers/#connect"' in page.content.decode()
