"""Submitting and editing in the admin: S1.4, S1.21, I35, I55 and I57."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.jobs.admin.pages import LIST, TYPES, edit_url, page_of
from tests.job_scenes import MAIL
from tests.jobs import job_type, jobs, row
from tests.pages import form_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

ADD = f"{LIST}add/"


def filled(client: Client, url: str, holding: str, **typed: Any) -> dict[str, Any]:
    return {**form_of(client.get(url), holding), **typed}


# --- a new job --------------------------------------------------------------------------------
def test_form_is_made_from_the_schema_of_the_type_and_submits(role_client: Any) -> None:
    client = role_client("operator")
    job_type("mail", params_schema=MAIL, max_attempts=4, default_priority=3)
    page = client.get(f"{ADD}?type=mail")
    for expected in ("Recipient", "One address.", "Reminders left"):
        assert expected in text_of(page), expected
    form = form_of(page, "key")
    typed = {
        "key": "order-17",
        "params-value/to": "ann@example.com",
        "params-value/attempts_left": "2",
    }
    answer = client.post(ADD, {**form, **typed})
    job = Job.objects.get()
    assert answer["Location"] == f"{LIST}{job.pk}/change/"
    assert (job.type, job.key, job.status) == ("mail", "order-17", t.READY)
    assert job.context == {"to": "ann@example.com", "attempts_left": 2}
    assert (job.priority, job.max_attempts) == (3, 4)
    assert job.submitted_by == "admin:operator"
    assert "by operator" in text_of(page_of(client, job.pk))


def test_times_and_numbers_of_the_form_count(admin_client: Client) -> None:
    job_type()
    typed = {
        "run_at_0": "2026-03-02",
        "run_at_1": "12:30:00",
        "priority": "-7",
        "max_attempts": "9",
        "user_id": "uid_ann",
        "params-raw": '{"a": 1}',
    }
    admin_client.post(ADD, filled(admin_client, ADD, "key", **typed))
    job = Job.objects.get()
    assert job.run_at.isoformat() == "2026-03-02T12:30:00+00:00"
    assert (job.priority, job.max_attempts, job.user_id) == (-7, 9, "uid_ann")
    assert (job.status, job.context) == (t.SCHEDULED, {"a": 1})


def test_all_that_is_wrong_with_a_new_job_is_shown_at_once(admin_client: Client) -> None:
    """The context, what is no number, what is out of range, and what the type requires."""
    job_type("mail", params_schema=MAIL)
    typed = {
        "params-uses_raw": "on",
        "params-raw": '{"to": 5}',
        "max_attempts": "many",
        "priority": "101",
        "user_id": "ä b",
        "is_unique": "on",
    }
    page = admin_client.post(ADD, filled(admin_client, f"{ADD}?type=mail", "key", **typed))
    form = page.context["adminform"].form
    assert set(form.errors) == {"__all__", "max_attempts", "priority", "user_id", "key"}
    assert form.errors["priority"] == ["101 is no priority; write a whole number from -100 to 100."]
    assert [len(each) for each in form.errors.values()] == [1] * 5
    assert form.params_form.errors


def test_unique_twin_that_is_open_is_shown_in_place_of_a_second(admin_client: Client) -> None:
    """I35: both callers get the one row."""
    job_type()
    typed = {"key": "order-17", "is_unique": "on", "params-raw": "{}"}
    form = filled(admin_client, ADD, "key", **typed)
    first = admin_client.post(ADD, form)
    second = admin_client.post(ADD, filled(admin_client, ADD, "key", **typed))
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1
    assert "This job with the same key is still open" in text_of(
        admin_client.get(second["Location"])
    )


def test_other_type_draws_its_fields_from_what_was_typed(admin_client: Client) -> None:
    job_type("mail", params_schema=MAIL)
    job_type("plain")
    form = filled(admin_client, f"{ADD}?type=plain", "key", key="k-1")
    page = admin_client.post(ADD, {**form, "type": "mail", "_draft": "1"})
    assert "Recipient" in text_of(page)
    assert form_of(page, "key")["key"] == "k-1"
    assert not Job.objects.exists()


# --- the edit of a waiting one --------------------------------------------------------------------
def scheduled(**columns: Any) -> int:
    job_type(params_schema=columns.pop("schema", {}))
    return jobs(run_at=clock.now() + timedelta(hours=1), **columns)[0]


def test_edit_changes_what_was_typed_and_shows_before_and_after(role_client: Any) -> None:
    """S1.21: change time, priority and maximum attempts; I55: with before, after and why."""
    client = role_client("operator")
    number = scheduled(context={"to": "ann"})
    factories.worker("host-b:1")
    typed = {
        "run_at_0": "2026-03-02",
        "run_at_1": "18:00:00",
        "priority": "8",
        "max_attempts": "6",
        "affinity_host": "host-b",
        "reason": "Customer called",
    }
    url = edit_url(number)
    answer = client.post(url, filled(client, url, "priority", **typed))
    assert answer["Location"] == f"{LIST}{number}/change/"
    job = row(number)
    assert (job.priority, job.max_attempts, job.affinity_host) == (8, 6, "host-b")
    assert job.run_at.isoformat() == "2026-03-02T18:00:00+00:00"
    assert job.context == {"to": "ann"}
    entry = JournalEntry.objects.latest("id")
    assert (entry.actor, entry.reason) == ("admin:operator", "Customer called")
    assert set(entry.data["after"]) == {"run_at", "priority", "max_attempts", "affinity_host"}
    text = text_of(client.get(answer["Location"]))
    assert "Priority 0 → 8. Maximum attempts 3 → 6. Only on host any → host-b." in text
    assert "priority 0 → 8" in text
    assert "only on host" in text


def test_untouched_form_changes_nothing(admin_client: Client) -> None:
    """Neither of a job nor of a type."""
    number = scheduled(context={"password": "hunter2", "n": 1.0}, schema={"type": "object"})
    made = job_type(stages=["a"], retry_delay_seconds=0.5)
    before = [list(model.objects.values()) for model in (Job, JobType)]
    type_url = f"{TYPES}{made.pk}/change/"
    for url, holding in ((edit_url(number), "priority"), (type_url, "max_attempts")):
        sent = filled(admin_client, url, holding, reason="Nothing")
        assert admin_client.post(url, sent).status_code == 302
    assert [list(model.objects.values()) for model in (Job, JobType)] == before
    assert not JournalEntry.objects.exists()


def test_all_that_is_wrong_with_an_edit_is_shown_at_once(admin_client: Client) -> None:
    url = edit_url(scheduled())
    typed = {"priority": "-101", "max_attempts": "x", "context": "{", "reason": ""}
    page = admin_client.post(url, filled(admin_client, url, "priority", **typed))
    errors = page.context["adminform"].form.errors
    assert set(errors) == {"priority", "max_attempts", "context", "reason"}
    assert [len(each) for each in errors.values()] == [1] * 4


def test_operator_without_the_right_to_see_contexts_edits_all_else(role_client: Any) -> None:
    client = role_client("operator")
    number = scheduled(context={"to": "Main Street 5"})
    url = edit_url(number)
    form = filled(client, url, "priority", priority="2", reason="Hurry")
    assert "context" not in form
    client.post(url, {**form, "context": "{}"})
    assert (row(number).priority, row(number).context) == (2, {"to": "Main Street 5"})
