"""Once more: an ended job with another context, and a new one that begins as an earlier one, live
or archived."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.masking import MASK
from apps.jobs.models import ArchivedJob, Job, JobScope
from apps.jobs.services.submit import submit
from tests.jobs import end, job_type, row, take
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

ADD = reverse("admin:jobs_job_add")
CONTEXT = {"to": "ann", "token": "s3cr3t"}


@pytest.fixture(autouse=True)
def _types() -> None:
    job_type("mail", max_attempts=1)
    job_type("bill", max_attempts=1)


def _failed(**said: Any) -> int:
    made = submit("mail", CONTEXT, key="a", priority=7, max_attempts=4, user_id="uid_ann", **said)
    end(take()[0], "failed", error="broke", retry="never")
    return made.id


def _archived(number: int) -> int:
    columns = {
        each.attname: getattr(row(number), each.attname) for each in ArchivedJob._meta.fields
    }
    Job.objects.filter(pk=number).delete()
    ArchivedJob.objects.create(**{**columns, "archived_at": clock.now()})
    return number


def test_retry_page_takes_another_context_and_keeps_what_it_masks(admin_client: Client) -> None:
    for model in ("job", "archivedjob"):
        number = _failed() if model == "job" else _archived(_failed())
        url = reverse(f"admin:jobs_{model}_retry_with", args=[number])
        page = admin_client.get(url)
        assert "s3cr3t" not in page.content.decode()
        form = form_of(page, "context")
        assert json.loads(form["context"]) == {"to": "ann", "token": MASK}

        wrong: Any = admin_client.post(url, {**form, "context": "[1]", "reason": "x"})
        assert "context" in wrong.context["adminform"].form.errors
        other = json.dumps({"to": "ben", "token": MASK})
        sent = admin_client.post(url, {**form, "context": other, "reason": "wrong person"})

        assert sent["Location"] == reverse("admin:jobs_job_change", args=[number])
        assert (row(number).status, row(number).context) == ("ready", {**CONTEXT, "to": "ben"})
        end(take()[0])


def test_new_job_begins_as_an_earlier_one(admin_client: Client) -> None:
    for number in (_failed(unique=True, unique_for=60), _archived(_failed())):
        Job.objects.filter(pk=number).update(unique_key=None)
        page = admin_client.get(f"{ADD}?again={number}")
        assert "s3cr3t" not in page.content.decode()
        assert "Masked values stay as they are unless you write others." in text_of(page)
        form = form_of(page, "key")
        assert (form["type"], form["key"], form["priority"]) == ("mail", "a", "7")
        assert (form["max_attempts"], form["user_id"]) == ("4", "uid_ann")

        answer = admin_client.post(f"{ADD}?again={number}", {**form, "key": f"b{number}"})

        made = Job.objects.latest("pk")
        assert answer["Location"] == reverse("admin:jobs_job_change", args=[made.pk])
        assert (made.context, made.key) == (CONTEXT, f"b{number}")
        assert (made.priority, made.max_attempts, made.user_id) == (7, 4, "uid_ann")
        assert (made.is_unique, made.unique_for) == (
            (True, 60) if form.get("is_unique") else (False, None)
        )
        end(take()[0])


def test_it_says_what_it_does_not_take_over(
    admin_client: Client, role_user: Any, role_client: Any
) -> None:
    number = _failed()
    # Masks stand for what the earlier job has, and for nothing in a job of another type.
    form = form_of(admin_client.get(f"{ADD}?again={number}"), "key")
    refused = admin_client.post(f"{ADD}?again={number}", {**form, "type": "bill"})
    assert "The context has errors; see below." in text_of(refused)
    assert not Job.objects.filter(type="bill").exists()

    blind = role_client("blind").get(f"{ADD}?again={number}")
    assert "You may not see its context: write it anew." in text_of(blind)
    assert form_of(blind, "key")["params-raw"] in ("", "{}")

    clerk = role_client("operator")
    person = role_user("operator")
    JobScope.objects.create(operator=person, type="bill")
    page = clerk.get(f"{ADD}?again={number}")
    assert "There is no such job." in text_of(page)
    assert form_of(page, "key")["key"] == ""
