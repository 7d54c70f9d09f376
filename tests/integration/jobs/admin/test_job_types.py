"""Job types in the admin: settings, pause, breaker, who serves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.jobs.admin.job_type_form import FAILS, MORE, PROTECTION, RUNS, JobTypeForm
from apps.jobs.models import JobType, TypeState
from apps.jobs.rules import breaker
from apps.jobs.rules.type_presets import PRESETS
from apps.journal.models import JournalEntry
from tests import factories
from tests.clients import JsonClient
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import TYPES, buttons, now_url
from tests.jobs import job_type, jobs, take
from tests.pages import change_url, form_of, nothing_drawn, text_of
from tests.processes import ROOT
from tests.statements import sent_by

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
    assert "maximum tries 3 → 7" in text
    assert "Job type created" in text


def test_any_stage_is_written_as_the_readme_of_asyncflow_says(
    admin_client: Client, make_key: Callable[..., str]
) -> None:
    """One notation in JSON, another one in the form, and neither is taken for the other."""
    said = " ".join((ROOT / "apps/asyncflow/README.md").read_text().split())
    assert 'the stages `["*"]`, in its form a line with `*`: any stage in any order' in said
    form = {**form_of(admin_client.get(ADD), "name"), "name": "lark"}
    shown: Any = admin_client.post(ADD, {**form, "stages": '["*"]'})
    assert [*shown.context["adminform"].form.errors] == ["stages"]

    admin_client.post(ADD, {**form, "stages": "*"})
    api = JsonClient(make_key())
    api.post("/api/v1/job-types/", {"name": "wren", "stages": ["*"]})

    assert [*JobType.objects.order_by("name").values_list("name", "stages")] == [
        ("lark", ["*"]),
        ("wren", ["*"]),
    ]


def test_list_has_a_column_of_limits_where_a_type_has_one(admin_client: Client) -> None:
    job_type("mail")
    assert "column-limits" not in admin_client.get(TYPES).content.decode()

    job_type("sms", rate_per_minute=60)
    assert "column-limits" in admin_client.get(TYPES).content.decode()


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


def test_preset_fills_the_form_in_and_saves_nothing(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    made = job_type(title="Mails")
    url = change_url(made)
    for preset, values in PRESETS.items():
        with subtests.test(preset=preset):
            form = form_of(admin_client.get(url), "max_attempts")
            sent = {**form, "title": "Letters", "breaker_enabled": "on"}
            page = admin_client.post(url, {**sent, "_draft": f"preset:{preset}"})
            drawn = form_of(page, "max_attempts")
            assert drawn["title"] == "Letters"
            assert drawn["max_attempts"] == str(values["max_attempts"])
            assert ("breaker_enabled" in drawn) == values["breaker_enabled"]
            assert page.content.decode().count('aria-pressed="true"') == 1
            made.refresh_from_db()
            assert (made.title, made.max_attempts) == ("Mails", 3)
    # What is drawn can be saved, on the page of a new type, too.
    form = {**form_of(admin_client.get(ADD), "name"), "_draft": "preset:night"}
    drawn = form_of(admin_client.post(ADD, form), "name")
    assert admin_client.post(ADD, {**drawn, "name": "nightly"}).status_code == 302
    assert JobType.objects.get(name="nightly").max_processing_seconds == 6 * 3600


@pytest.mark.both
def test_form_says_what_an_edit_would_change_and_saves_nothing(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    made = job_type("mail", max_processing_seconds=900)
    jobs(60)
    take(3)
    frozen_clock.advance(seconds=61)
    url = change_url(made)
    form = form_of(admin_client.get(url), "max_attempts")
    for change, said in (
        ({}, "No job that waits or runs would end, wait or be late by that."),
        ({"weight": "9"}, "No job that waits or runs"),
        ({"rate_per_minute": "5"}, "7 more waiting jobs would start too late."),
        ({"rate_per_minute": "0"}, "57 more waiting jobs would start too late."),
        ({"expires_after_seconds": "1 min"}, "57 waiting jobs would have expired, and fail."),
        ({"expires_after_seconds": "2 min"}, "No job that waits or runs"),
        ({"max_running": "1"}, "2 jobs run above the limit; they go on"),
        ({"max_processing_seconds": "1 min"}, "3 running jobs have taken longer than a try"),
        # What cannot be read is as it is stored.
        ({"max_processing_seconds": "soon"}, "No job that waits or runs"),
    ):
        with subtests.test(change=change):
            page = admin_client.post(url, {**form, **change, "_draft": "what_if"})
            assert said in text_of(page)
            assert JobType.objects.get().version == made.version
    first = sent_by(lambda: admin_client.post(url, {**form, "_draft": "what_if"}))
    jobs(200)
    assert len(sent_by(lambda: admin_client.post(url, {**form, "_draft": "what_if"}))) <= len(first)


def test_form_folds_what_types_seldom_differ_in(admin_client: Client) -> None:
    made = job_type("mail", weight=5, allowed_hosts=["<b>", "shop-2"])
    page = admin_client.get(change_url(made))
    html, text = page.content.decode(), text_of(page)
    first, folded = html[: html.index('class="task-more"')], html[html.index('class="task-more"') :]
    names = {name for name in JobTypeForm.Meta.fields if f'name="{name}"' in first}
    assert names == {*RUNS, *FAILS, *PROTECTION}
    assert all(f'name="{name}"' in folded for name in MORE)
    assert "Weight: 5" in text
    assert "Allowed hosts: <b>, shop-2" in text
    # Enter presses the first button of a form: it saves, and takes no preset.
    buttons_in_order = re.findall(r'type="submit" name="(_\w+)"', html)
    assert buttons_in_order[:2] == ["_save", "_draft"]
    # A mistake in it opens it.
    form = form_of(page, "max_attempts")
    wrong = admin_client.post(change_url(made), {**form, "weight": "0"})
    assert '<details class="task-more" open>' in wrong.content.decode()


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
    assert "Paused until 12:00:00 in 3 h “CRM is down”" in text_of(page)
    assert buttons(page) == {"Resume"}
    assert "Paused" in text_of(client.get(TYPES))
    jobs()
    assert take() == []
    act(client, "resume", made)
    assert len(take()) == 1
    assert "Nothing was left to do" in text_of(client.get(act(client, "resume", made)["Location"]))


def test_type_is_paused_and_resumed_from_its_row(role_client: Any) -> None:
    made, client = job_type(), role_client("operator")

    def acts(client: Any) -> list[str]:
        found = re.findall(r'"([^"]*/act/[^"]*)"', client.get(TYPES).content.decode())
        return [unescape(url) for url in found if f"ids={made.pk}" in url or "/resume/" in url]

    [asks] = acts(client)
    # The list renews itself; its rows lead back to it as a whole.
    renewed = unescape(client.get(f"{TYPES}?_part=rows").content.decode())
    assert f'href="{asks}"' in renewed
    page = client.get(asks)
    assert page.status_code == 200
    sent = form_of(page, "reason") | {"reason": "CRM is down"}
    answer = client.post(asks.partition("?")[0], sent)
    assert answer["Location"] == TYPES
    made.refresh_from_db()
    assert made.paused
    [resumes] = acts(client)
    client.post(resumes, {"ids": made.pk})
    made.refresh_from_db()
    assert not made.paused
    assert acts(role_client("viewer")) == []
    # The platform needs its own.
    assert job_type("bulk") and len(acts(client)) == 1


def test_breaker_is_shown_and_closed_by_hand(role_client: Any) -> None:
    """S4.19: visible, and overridable."""
    client = role_client("operator")
    made = job_type(breaker_enabled=True, breaker_open_seconds=30)
    TypeState.objects.create(
        type="mail", breaker=breaker.OPEN, breaker_since=clock.now() - timedelta(seconds=10)
    )
    page = client.get(now_url(made))
    assert "Breaker Open first probe 09:00:20 in 20 s" in text_of(page)
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
