"""Pools in the admin: who holds what, and a rebuild from lines. S3.3, S3.4; D.6."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.jobs.models import JobScope, JobType, Worker
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import TYPES, page_of
from tests.jobs import job_type
from tests.pages import text_of
from tests.pools import FIVE, NAME, assign, fill, job_of, pool, waiting

pytestmark = pytest.mark.django_db

POOLS = f"{TYPES}pools/"


@pytest.fixture(autouse=True)
def keys(frozen_clock: FrozenClock) -> JobType:
    return pool(FIVE)


def rebuild_url() -> str:
    return reverse("admin:jobs_jobtype_rebuild", args=[JobType.objects.get(name=NAME).pk])


def refusals(page: Any) -> str:
    return " ".join(page.context["form"].non_field_errors())


# --- the list -----------------------------------------------------------------------------------
def test_page_shows_what_waits_and_who_holds_it(role_client: Any) -> None:
    """S3.3."""
    assign("pi-7", limit=2)
    pool_of_nothing = job_type("other", pool=True)

    page = role_client("viewer").get(POOLS)
    text = text_of(page)

    assert "3 waiting 2 held by workers" in text
    assert "pi-7 ci_ours 2" in text
    worker = reverse("admin:jobs_worker_change", args=[Worker.objects.get().pk])
    assert f'href="{worker}">pi-7<' in page.content.decode()
    assert "Latest rebuild: single-1 · olga" in text
    assert pool_of_nothing.name in text and "Not rebuilt yet." in text


def test_job_of_a_pool_shows_its_score(role_client: Any) -> None:
    """S3.2: it has no head start by priority."""
    fill({**FIVE, "a": 12.5})
    client = role_client("viewer")

    text = text_of(page_of(client, job_of("a").pk))

    assert "Score 12.5" in text
    assert "priority 0 ×" not in text
    assert "score 12.5" in text_of(client.get("/admin/jobs/job/"))


# --- rebuilding ---------------------------------------------------------------------------------
def test_lines_are_tried_and_then_rebuild_the_pool(role_client: Any) -> None:
    """S3.4: in the name of the person."""
    assign(limit=1)
    client = role_client("operator")
    lines = 'key,score\na,1\n"b", 2.5\r\n\nf,-0.125\n'

    tried = client.post(rebuild_url(), {"text": lines})

    counts = {str(word): count for word, count in tried.context["changes"]}
    expected = {"new": 1, "new score": 1, "as before": 0, "held by workers": 1, "withdrawn": 3}
    assert counts == expected
    assert waiting() == {"b": 2, "c": 3, "d": 4, "e": 5}
    done = client.post(rebuild_url(), {"text": lines, "confirmed": "yes"}, follow=True)
    assert "is rebuilt. New 1, New score 1, As before 0" in text_of(done)
    assert waiting() == {"f": -0.125, "b": 2.5}
    entry = JournalEntry.objects.filter(event="pool_rebuilt").latest("id")
    assert entry.actor == "admin:operator"


def test_file_is_read_as_its_text(role_client: Any) -> None:
    file = SimpleUploadedFile("keys.csv", b"\xef\xbb\xbfkey,score\nx,1\n")

    tried = role_client("operator").post(rebuild_url(), {"file": file})

    assert tried.context["count"] == 1


WRONG_LINES = (
    ("a", "Line 1 is no key and score with a comma between them."),
    ("a,1\nb,1,2", "Line 2 is no key and score"),
    ("a,1\n\nb,x", "Line 3: 'x' is no score"),
    ("a,nan", "Line 1: 'nan' is no score"),
    ("a,1e400", "Line 1: '1e400' is no score"),
    ("a,0.0001", "Line 1: '0.0001' is no score"),
    ("a,9000000000000", "less than 9,000,000,000,000 on both sides of 0"),
    ("á,1", "Line 1: 'á' is no key"),
    (f"{'k' * 129},1", "is no key; use 1 to 128 letters"),
    ("a,1\na,2", "Line 2: the key a is there twice."),
    ("", "Choose a file or paste its text."),
    ("a,1_000", "Line 1: '1_000' is no score"),
    ("a,٥", "Line 1: '٥' is no score"),
    (f"a,{'9' * 5000}", "is no score"),
    ("".join(f"k{n},1\n" for n in range(10_001)), "At most 10000 keys at once"),
)


def test_wrong_lines_are_named_and_change_nothing(
    role_client: Any, subtests: pytest.Subtests
) -> None:
    client = role_client("operator")
    for lines, refusal in WRONG_LINES:
        with subtests.test(lines=lines[:20]):
            page = client.post(rebuild_url(), {"text": lines, "confirmed": "yes"})

            assert refusal in refusals(page)
            assert waiting() == FIVE


# --- who may ------------------------------------------------------------------------------------


def test_person_sees_and_rebuilds_the_pools_of_their_types(
    role_client: Any, role_user: Any
) -> None:
    """S0.5: limits by type."""
    job_type("mail")
    client: Client = role_client("operator")
    JobScope.objects.create(operator=User.objects.get(username="operator"), type="mail")

    assert NAME not in text_of(client.get(POOLS))
    refused = client.post(rebuild_url(), {"text": "x,1", "confirmed": "yes"})
    assert (refused.status_code, refused["Location"]) == (302, POOLS)
    assert waiting() == FIVE
    JobScope.objects.update(type=NAME)
    client.post(rebuild_url(), {"text": "x,1", "confirmed": "yes"})
    assert waiting() == {"x": 1}
