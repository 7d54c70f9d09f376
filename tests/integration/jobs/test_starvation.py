"""S4.19: the log and the admin site warn of ready jobs that wait too long."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.jobs.models import JobType, Worker
from apps.jobs.services import types
from apps.jobs.services.counts import Starving, starving, warn_of_starving
from apps.jobs.sweeps import warn_of_starving as sweep
from tests.factories import worker
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, TYPES, WORKERS
from tests.jobs import job_type, jobs, take
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail")
    job_type("film")


def test_job_that_has_been_ready_too_long_starves_its_type(frozen_clock: FrozenClock) -> None:
    since = frozen_clock.instant - TEN_MINUTES
    jobs(1, run_at=since)
    jobs(1, "film", run_at=frozen_clock.instant)
    assert starving(frozen_clock.instant) == []
    frozen_clock.advance(seconds=1)
    assert starving(frozen_clock.instant) == [Starving("mail", since)]


def test_who_is_paused_running_or_not_due_does_not_starve(frozen_clock: FrozenClock) -> None:
    jobs(1, run_at=frozen_clock.instant + timedelta(hours=1))
    jobs(1, "film", run_at=frozen_clock.instant - 2 * TEN_MINUTES)
    types.pause_type(job_type=types.find("film"), reason="tonight", actor="olga")
    job_type("news")
    jobs(1, "news", run_at=frozen_clock.instant - 2 * TEN_MINUTES)
    assert len(take(types=("news",))) == 1
    assert starving(frozen_clock.instant) == []


def test_log_has_one_line_a_minute_for_each_type(
    frozen_clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    jobs(3, run_at=frozen_clock.instant - 2 * TEN_MINUTES)
    with caplog.at_level(logging.WARNING, "apps.jobs"):
        assert (warn_of_starving(), warn_of_starving()) == (1, 0)
        frozen_clock.advance(seconds=59)
        jobs(1, "film", run_at=frozen_clock.instant - 2 * TEN_MINUTES)
        assert (warn_of_starving(), warn_of_starving()) == (1, 0)
        frozen_clock.advance(seconds=1)
        assert sweep() == 1
    assert caplog.messages == [
        "jobs of type mail wait too long: the next one has been ready for 1200 s",
        "jobs of type film wait too long: the next one has been ready for 1200 s",
        "jobs of type mail wait too long: the next one has been ready for 1260 s",
    ]


# --- in admin -----------------------------------------------------------------------------------
def test_lists_and_page_warn_of_what_waits_too_long(
    frozen_clock: FrozenClock, admin_client: Client
) -> None:
    worker(types=["mail", "film"])
    page = reverse("job_type_now", args=[JobType.objects.get(name="mail").pk])
    quiet = "wait too long"
    for url in (LIST, TYPES, page):
        assert quiet not in text_of(admin_client.get(url))
    jobs(1, run_at=frozen_clock.instant - timedelta(minutes=14))
    for url in (LIST, TYPES, page):
        shown = text_of(admin_client.get(url))
        assert "Ready jobs wait too long to start: mail: next job ready for 14 min" in shown
    # More workers would not help a type that may run none.
    JobType.objects.filter(name="mail").update(max_running=0)
    assert quiet not in (shown := text_of(admin_client.get(page)))
    assert "No job of this type may run: its “maximum running” is 0. Change it" in shown
    other = reverse("job_type_now", args=[JobType.objects.get(name="film").pk])
    assert quiet not in text_of(admin_client.get(other))


@pytest.mark.parametrize(("language", "between"), [("en", "</a>; <a"), ("zh-hans", "</a>；<a")])
def test_types_that_starve_are_divided_as_the_language_does(
    frozen_clock: FrozenClock, admin_client: Client, language: str, between: str
) -> None:
    worker(types=["mail", "film"])
    for name in ("mail", "film"):
        jobs(1, name, run_at=frozen_clock.instant - timedelta(minutes=14))
    shown = admin_client.get(LIST, headers={"accept-language": language}).content.decode()
    assert between in shown
    page = admin_client.get(WORKERS, headers={"accept-language": language})
    assert f"film{', ' if language == 'en' else '、'}mail" in text_of(page)


def test_workers_page_shows_slots_and_the_longest_wait(
    frozen_clock: FrozenClock, admin_client: Client, settings: Any
) -> None:
    """S1.17: the figures follow from workers and period, and operators see them."""
    shown = text_of(admin_client.get(WORKERS))
    assert "No in-house worker takes jobs now." in shown
    worker("host-a:1", capacity=4, running=3)
    worker("host-b:1", capacity=2, running=5)
    worker("host-c:1", capacity=9, kind=Worker.Kind.HTTP)
    shown = text_of(admin_client.get(WORKERS))
    assert "6 slots, 1 free. Due jobs start at once, at the latest after 1 s." in shown
    settings.JOB_SCAN_SECONDS = 4
    shown = text_of(admin_client.get(WORKERS))
    assert "at the latest after 4 s" in shown
    Worker.objects.update(running=9)
    shown = text_of(admin_client.get(WORKERS))
    assert "6 slots, 0 free. Due jobs start as soon as a slot is free." in shown
