"""Workers in the admin: both kinds on one page, what each runs now, quiet and resume."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.access.models import ApiClient
from apps.common import clock
from apps.jobs.admin import worker_panels
from apps.jobs.models import Job, JobScope, Worker
from apps.jobs.rules.caller import Caller
from apps.jobs.services import register
from apps.jobs.services.settle import settle
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, WORKERS, buttons, outside, page_of
from tests.jobs import HERE, end, job_type, jobs, row, take
from tests.pages import change_url, tables_of, text_of
from tests.statements import OPEN_JOBS, analyze, indexes_on, is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def lines_of(page: Any) -> list[list[str]]:
    """The table of running jobs, without its heading."""
    found = [table for table in tables_of(page) if table[0][0].text == "Job"]
    return [[cell.text for cell in line] for table in found for line in table[1:]]


def now_of(page: Any) -> list[list[str]]:
    """The table above the list of workers, without its heading."""
    [found] = [table for table in tables_of(page) if table[0][0].text == "Worker"]
    return [[cell.text for cell in line] for line in found[1:]]


# --- the list -------------------------------------------------------------------------------------
def test_list_is_narrowed_by_the_state_that_it_shows(admin_client: Client, key: ApiClient) -> None:
    """S2.20: each worker is found under one state, that of its row."""
    long_ago = clock.now() - timedelta(minutes=30)
    factories.worker("active-1")
    factories.worker("stopping-1", state="draining")
    factories.worker("gone-1", state="gone")
    factories.worker("quiet-1", is_quiet=True)
    factories.worker("lost-1", last_heartbeat_at=long_ago)
    factories.worker("lost-2", state="draining", last_heartbeat_at=long_ago)
    outside(key, "away-1", promises_beats=False, last_heartbeat_at=long_ago)
    outside(key, "quiet-2", promises_beats=False, is_quiet=True, last_heartbeat_at=long_ago)
    states = {"active": {"active-1"}, "draining": {"stopping-1"}, "quiet": {"quiet-1", "quiet-2"}}
    states["gone"] = {"gone-1", "lost-1", "lost-2", "away-1"}
    for state, names in states.items():
        page = admin_client.get(f"{WORKERS}?state={state}")
        assert {row.name for row in page.context["cl"].result_list} == names


def test_both_kinds_are_on_one_page_with_key_version_and_host(
    admin_client: Client, key: ApiClient
) -> None:
    factories.worker("host-a:1", capacity=4)
    outside(key, version="2.1.0")

    text = text_of(admin_client.get(WORKERS))

    assert "host-a:1 Active Quiet 0 s ago In-house host-a" in text
    assert "pi-1 Active Quiet 0 s ago Over HTTP Warehouse pi 2.1.0" in text
    only_outside = text_of(admin_client.get(f"{WORKERS}?kind=http&client={key.client_id}"))
    assert "pi-1" in only_outside
    assert "host-a:1" not in only_outside


def test_worker_without_heartbeats_calls_when_it_wants_work_and_is_never_lost(
    admin_client: Client, key: ApiClient, frozen_clock: FrozenClock
) -> None:
    job_type(handler="")
    jobs(1)
    outside(key, promises_beats=False)
    frozen_clock.advance(seconds=24)
    page = admin_client.get(WORKERS)
    assert "Active Quiet 24 s ago calls when it wants work" in text_of(page)
    assert page.context["unserved"] == []

    frozen_clock.advance(seconds=1)

    page = admin_client.get(WORKERS)
    assert "Offline Quiet 25 s ago calls when it wants work" in text_of(page)
    assert [each.name for each in page.context["unserved"]] == ["mail"]


def test_jobs_of_workers_over_http_are_counted(admin_client: Client, key: ApiClient) -> None:
    """What such a worker reports leaves out the keys of pools that it holds, or is missing."""
    job_type()
    workers = [outside(key, f"pi-{n}", promises_beats=n == 1) for n in (1, 2, 3)]
    jobs(3)
    for worker in workers[:2]:
        take(1, by=HERE._replace(name=worker.name, client=key.client_id))

    page = admin_client.get(WORKERS)

    assert text_of(page).count("1 job ") == 2
    assert "0 jobs" in text_of(page)
    for worker in workers[:2]:
        url = worker_panels.jobs_url(worker, status="running").replace("&", "&amp;")
        assert url in page.content.decode()


# --- what it runs now -----------------------------------------------------------------------------
def test_page_lists_what_the_worker_runs_now(
    admin_client: Client, key: ApiClient, frozen_clock: FrozenClock
) -> None:
    """Of two workers of one name each has its own."""
    job_type(max_processing_seconds=600)
    worker, other = outside(key), factories.worker("pi-1")
    [number] = jobs(key="order-17")
    [held] = take(by=HERE._replace(name="pi-1", client=key.client_id))
    Job.objects.filter(pk=number).update(progress=40)
    [foreign] = jobs()
    take(by=HERE._replace(name="pi-1"))
    frozen_clock.advance(seconds=90)

    page = admin_client.get(change_url(worker))

    assert lines_of(page) == [
        [str(number), "mail", "order-17", "1 min 30 s", "40 %", "1 / 3", "in 8 min 30 s"]
    ]
    assert reverse("admin:jobs_job_change", args=[number]) in page.content.decode()
    assert [line[0] for line in lines_of(admin_client.get(change_url(other)))] == [str(foreign)]

    frozen_clock.move_to(frozen_clock.instant - timedelta(seconds=90))
    settle(outcomes=[held.ended("succeeded")], caller=Caller(key.client_id))
    assert "It runs nothing now." in text_of(admin_client.get(change_url(worker)))


@pytest.mark.django_db(transaction=True)
def test_running_jobs_are_found_by_an_index_of_what_runs(
    admin_client: Client, key: ApiClient
) -> None:
    job_type()
    worker = outside(key, promises_beats=False)
    jobs(500, status="succeeded", finished_at=clock.now())
    jobs(560)
    take(60, by=HERE._replace(name="pi-1", client=key.client_id))
    analyze(Job)
    for url in (WORKERS, change_url(worker)):
        reads = [sql for sql in sent_by(lambda url=url: admin_client.get(url)) if is_read(Job, sql)]  # type: ignore[misc]
        assert reads, url
        for sql in reads:
            assert indexes_on(Job, sql) <= OPEN_JOBS | {"PRIMARY"}, sql


def test_list_shows_above_what_runs_where_longest_first(
    admin_client: Client, key: ApiClient, frozen_clock: FrozenClock
) -> None:
    job_type(max_processing_seconds=600)
    factories.worker("host-a:1")
    outside(key)
    first, second = jobs(2)
    take(1)
    frozen_clock.advance(seconds=60)
    take(1, by=HERE._replace(name="pi-1", client=key.client_id))
    frozen_clock.advance(seconds=30)

    page = admin_client.get(WORKERS)

    assert now_of(page) == [
        ["host-a:1", str(first), "mail", "–", "1 min 30 s", "–", "1 / 3", "in 8 min 30 s"],
        ["pi-1", str(second), "mail", "–", "30 s", "–", "1 / 3", "in 9 min 30 s"],
    ]
    part = admin_client.get(f"{WORKERS}running/")
    assert part.content.decode().strip().startswith("<section")
    assert now_of(part) == now_of(page)
    Job.objects.update(status="succeeded")
    assert "No worker runs a job now." in text_of(admin_client.get(WORKERS))


def test_running_jobs_of_others_are_not_shown_to_people_with_limits(
    role_client: Callable[[str], Client], role_user: Callable[[str], User]
) -> None:
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    job_type()
    job_type("sms")
    [own, foreign] = [*jobs(), *jobs(1, "sms")]
    worker = factories.worker(HERE.name, types=["mail", "sms"])
    take(types=("mail", "sms"))
    for url in (WORKERS, f"{WORKERS}running/", change_url(worker)):
        shown = text_of(role_client("operator").get(url))
        assert str(own) in shown
        assert str(foreign) not in shown


def test_load_of_workers_has_only_jobs_that_people_with_limits_see(
    role_client: Callable[[str], Client], role_user: Callable[[str], User], key: ApiClient
) -> None:
    """In-house and over HTTP, in the list and on the page."""
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    for name, count in (("mail", 2), ("sms", 6)):
        job_type(name)
        jobs(count, name)
    here = factories.worker(HERE.name, types=["mail", "sms"], running=4, capacity=8)
    there = outside(key)
    for by in (HERE, HERE._replace(name=there.name, client=key.client_id)):
        take(types=("mail",), limit=1, by=by)
        take(types=("sms",), limit=3, by=by)
    for url, count in ((WORKERS, 2), (change_url(here), 1), (change_url(there), 1)):
        shown = text_of(role_client("operator").get(url))
        assert len(re.findall(r"\b1 job\b", shown)) >= count
        assert "4 jobs" not in shown
        assert not re.search(r"\d of \d+ slots", shown)
        assert "4 jobs" in text_of(role_client("configurer").get(url))


# --- from a job to its worker ---------------------------------------------------------------------
def test_job_leads_to_its_worker_by_key_and_name(admin_client: Client, key: ApiClient) -> None:
    job_type()
    worker, other = outside(key), factories.worker("pi-1")
    [number] = jobs()
    [held] = take(by=HERE._replace(name="pi-1", client=key.client_id))

    running = admin_client.get(reverse("admin:jobs_job_change", args=[number]))
    assert change_url(worker) in running.content.decode()
    assert change_url(other) not in running.content.decode()
    assert "pi-1 · API key Warehouse" in text_of(running)

    settle(outcomes=[held.ended("succeeded")], caller=Caller(key.client_id))
    assert row(number).status == "succeeded"
    ended = page_of(admin_client, number).content.decode()
    assert change_url(worker) in ended
    assert change_url(other) not in ended


def test_job_leads_to_a_worker_that_is_gone_until_its_row_is_forgotten(
    admin_client: Client,
) -> None:
    job_type()
    worker = factories.worker(HERE.name)
    [number] = jobs()
    end(take()[0])
    register.leave(name=HERE.name)
    html = page_of(admin_client, number).content.decode()
    # In the table of attempts and among the fields.
    assert html.count(change_url(worker)) == 2
    page = admin_client.get(change_url(worker))
    assert "Offline" in text_of(page)
    assert f"{LIST}?worker={HERE.name.replace(':', '%3A')}" in page.content.decode()

    Worker.objects.all().delete()

    page = page_of(admin_client, number)
    assert HERE.name in text_of(page)
    assert change_url(worker) not in page.content.decode()


def act(client: Client, name: str, *workers: Worker) -> Any:
    ids = ",".join(str(worker.pk) for worker in workers)
    return client.post(f"{WORKERS}act/{name}/", {"ids": ids, "reason": "New disk"})


# --- quiet and resume -----------------------------------------------------------------------------
def test_operator_makes_a_worker_quiet_and_resumes_it(role_client: Callable[[str], Client]) -> None:
    job_type()
    client, worker = role_client("operator"), factories.worker()
    page = client.get(change_url(worker))
    assert buttons(page) == {"Quiet"}
    question = client.get(f"{WORKERS}act/quiet/?ids={worker.pk}")
    assert "take nothing new from their next heartbeat on" in text_of(question)

    done = act(client, "quiet", worker)

    assert "1 worker made quiet." in text_of(client.get(done["Location"]))
    page = client.get(change_url(worker))
    assert buttons(page) == {"Resume"}
    text = text_of(page)
    assert "Quiet since 09:00 “New disk” (operator)" in text
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
    text = text_of(client.get(change_url(worker)))
    assert "Quiet since" in text and "“" not in text
    assert "cell-button" not in client.get(change_url(worker)).content.decode()
    viewer = role_client("viewer").get(WORKERS).content.decode()
    assert "cell-button" not in viewer


def test_gone_worker_that_would_come_back_quiet_says_so_and_is_resumed(
    role_client: Callable[[str], Client], key: ApiClient
) -> None:
    client, worker = role_client("operator"), outside(key, state="gone", is_quiet=True)
    assert "pi-1 Offline Resume quiet" in text_of(client.get(WORKERS))
    assert buttons(client.get(change_url(worker))) == {"Resume"}

    act(client, "resume", worker)

    assert re.search(r"pi-1 Offline \d+ s ago", text_of(client.get(WORKERS)))


def test_person_limited_to_types_is_told_who_can(
    role_client: Callable[[str], Client], role_user: Callable[[str], User]
) -> None:
    """A worker runs the jobs of others, too."""
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    client = role_client("operator")
    for name, is_quiet in (("quiet", False), ("resume", True)):
        worker = factories.worker(f"host-{name}:1", is_quiet=is_quiet)
        assert buttons(client.get(change_url(worker))) == set()

        assert "a worker runs those of others, too" in text_of(act(client, name, worker))
        assert Worker.objects.get(pk=worker.pk).is_quiet == is_quiet


# --- who serves a type ----------------------------------------------------------------------------
def test_page_of_a_type_names_workers_of_both_kinds(admin_client: Client, key: ApiClient) -> None:
    made = job_type()
    url = reverse("job_type_now", args=[made.pk])
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
