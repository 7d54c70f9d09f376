"""Workers that operators make quiet and resume, and who serves a type then."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.access.models import ApiClient
from apps.jobs.models import JobScope, Worker
from apps.jobs.services import register
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import WORKERS, buttons, outside, worker_url
from tests.jobs import job_type
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def act(client: Client, name: str, *workers: Worker) -> Any:
    ids = ",".join(str(worker.pk) for worker in workers)
    return client.post(f"{WORKERS}act/{name}/", {"ids": ids, "reason": "New disk"})


# --- quiet and resume -----------------------------------------------------------------------------
def test_operator_makes_a_worker_quiet_and_resumes_it(
    role_client: Callable[[str], Client], frozen_clock: FrozenClock
) -> None:
    job_type()
    client, worker = role_client("operator"), factories.worker()
    page = client.get(worker_url(worker))
    assert buttons(page) == {"Quiet"}
    question = client.get(f"{WORKERS}act/quiet/?ids={worker.pk}")
    assert "take nothing new from their next heartbeat on" in text_of(question)

    done = act(client, "quiet", worker)

    assert "1 worker made quiet." in text_of(client.get(done["Location"]))
    page = client.get(worker_url(worker))
    assert buttons(page) == {"Resume"}
    text = text_of(page)
    assert "Quiet since 2026-03-02 09:00:00 UTC : New disk (operator)" in text
    assert "Worker made quiet" in text
    listed = client.get(WORKERS)
    assert "host-a:1 Quiet Resume" in text_of(listed)
    assert "1 worker is quiet: it takes nothing new." in text_of(listed)
    assert [each.name for each in listed.context["unserved"]] == ["mail"]
    assert "host-a:1" in text_of(client.get(f"{WORKERS}?state=quiet"))
    assert "host-a:1" not in text_of(client.get(f"{WORKERS}?state=active"))

    act(client, "resume", worker)

    assert not Worker.objects.get().is_quiet
    events = JournalEntry.objects.filter(source="worker").values_list("event", "actor", "reason")
    expected = [(event, "admin:operator", "New disk") for event in ("quieted", "resumed")]
    assert list(events.order_by("id")) == expected
    assert "Nothing was left to do" in text_of(
        client.get(act(client, "resume", worker)["Location"])
    )


def test_one_click_in_the_list_makes_a_worker_quiet(role_client: Callable[[str], Client]) -> None:
    """It sends the form of the list to another address, without a reason."""
    client, worker = role_client("operator"), factories.worker()
    html = client.get(f"{WORKERS}?state=active").content.decode()
    [(url, pk)] = re.findall(r'formaction="([^"]+)" name="ids" value="([^"]+)">Quiet<', html)

    answer = client.post(unescape(url), {"ids": pk, "action": "", "_selected_action": []})

    assert answer["Location"] == f"{WORKERS}?state=active"
    assert Worker.objects.get(pk=worker.pk).is_quiet
    text = text_of(client.get(worker_url(worker)))
    assert "Quiet since" in text and " : " not in text
    assert "cell-button" not in client.get(worker_url(worker)).content.decode()
    viewer = role_client("viewer").get(WORKERS).content.decode()
    assert "cell-button" not in viewer


def test_gone_worker_that_would_come_back_quiet_says_so_and_is_resumed(
    role_client: Callable[[str], Client], key: ApiClient
) -> None:
    client, worker = role_client("operator"), outside(key, state="gone", is_quiet=True)
    assert "pi-1 Gone Resume quiet" in text_of(client.get(WORKERS))
    assert buttons(client.get(worker_url(worker))) == {"Resume"}

    act(client, "resume", worker)

    assert re.search(r"pi-1 Gone \d+ s ago", text_of(client.get(WORKERS)))


def test_person_limited_to_types_is_told_who_can(
    role_client: Callable[[str], Client], role_user: Callable[[str], User]
) -> None:
    """A worker runs the jobs of others, too."""
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    client = role_client("operator")
    for name, is_quiet in (("quiet", False), ("resume", True)):
        worker = factories.worker(f"host-{name}:1", is_quiet=is_quiet)
        assert buttons(client.get(worker_url(worker))) == set()

        assert "a worker runs those of others, too" in text_of(act(client, name, worker))
        assert Worker.objects.get(pk=worker.pk).is_quiet == is_quiet


# --- who serves a type ----------------------------------------------------------------------------
def test_page_of_a_type_names_workers_of_both_kinds(admin_client: Client, key: ApiClient) -> None:
    made = job_type()
    url = reverse("admin:jobs_jobtype_change", args=[made.pk])
    factories.worker()
    worker = outside(key)
    assert "Workers: host-a:1 , pi-1" in text_of(admin_client.get(url))

    Worker.objects.exclude(pk=worker.pk).delete()
    register.quiet(worker=worker, actor="admin:olga", reason="New disk")
    assert "These are quiet; resume one: pi-1" in text_of(admin_client.get(url))

    worker.delete()
    expected = "Start a worker with its handler, connect one over HTTP, or change the allowed hosts"
    assert expected in text_of(admin_client.get(url))
    assert "or connect one over HTTP." in text_of(admin_client.get(WORKERS))

    job_type(handler="")
    assert "connect a worker over HTTP that lists it" in text_of(admin_client.get(url))
