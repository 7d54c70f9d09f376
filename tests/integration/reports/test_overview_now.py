"""The overview shows how everything stands now, and what to do first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from apps.access.services import create_client
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.services import pull
from apps.jobs.models import Job, TypeState, Worker
from apps.jobs.services import register
from apps.reports.admin.overview import present
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.reports.home import home, notices, tile, tiles
from tests.jobs import job_type, jobs, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_jobs_are_counted_by_state_and_the_longest_due_is_found(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    job_type("sms")
    jobs(7)
    take(2)
    jobs(3, run_at=clock.now() + timedelta(hours=1))
    jobs(4, "sms", status="failed", finished_at=clock.now())
    (oldest,) = jobs(1, "sms", run_at=clock.now() - timedelta(seconds=95), priority=-100)
    jobs(5, status="succeeded", finished_at=clock.now())

    html = home(admin_client)

    for status in ("ready", "scheduled", "running", "failed"):
        assert tile(html, f"jobs-{status}") == str(Job.objects.filter(status=status).count())
        assert f"/admin/jobs/job/?status={status}" in html
    assert tile(html, "jobs-due") == "1 min 35 s"
    assert f'id="overview-tile-jobs-due" href="/admin/jobs/job/{oldest}/change/"' in html


def test_counts_end_at_their_limit_and_say_so(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(present, "MAX_COUNTED", 4)
    job_type()
    jobs(6)
    jobs(4, run_at=clock.now() + timedelta(hours=1))
    jobs(3, status="failed", finished_at=clock.now())
    group = factories.group(members=[f"uid_{n}" for n in range(6)])
    factories.once_task(group, mode="multi", dispatch_times=None)
    for n in range(6):
        pull.answer_pull(f"uid_{n}")

    shown = tiles(home(admin_client))

    assert shown["jobs-ready"] == "4+"
    assert shown["jobs-scheduled"] == "4+"
    assert shown["jobs-failed"] == "3"
    assert shown["dispatches-open"] == "4+"


def test_open_dispatches_and_their_next_deadline(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    group = factories.group(members=["uid_ann", "uid_bob"])
    factories.once_task(group, mode="multi", dispatch_times=2, lease_seconds=60)
    for uid in ("uid_ann", "uid_bob"):
        pull.answer_pull(uid)
        frozen_clock.advance(seconds=10)

    shown = tiles(home(admin_client))
    assert (shown["dispatches-open"], shown["dispatches-deadline"]) == ("2", "in 40 s")

    frozen_clock.advance(seconds=75)
    html = home(admin_client)
    assert tile(html, "dispatches-deadline") == "35 s ago"
    assert 'class="figure figure-danger" id="overview-tile-dispatches-deadline"' in html


def test_workers_beat_and_sweeps_show_how_they_are(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("w1", "w2", "w3"):
        register.register(name=name, host="h1", capacity=4)
    register.beat(name="w1", drains={"fast": 3}, running=17)
    Worker.objects.filter(name="w3").update(last_heartbeat_at=clock.now() - timedelta(minutes=2))
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass
    with sweep_lease("jobs.reorder", at_most=timedelta(seconds=30)):
        pass
    frozen_clock.advance(seconds=9)
    monkeypatch.setattr(clock, "drift", lambda: timedelta(seconds=-3.21))

    html = home(admin_client)

    shown = tiles(html)
    assert (shown["workers"], shown["slots"]) == ("2", "3 of 8")
    assert "heartbeat 9 s ago" in html
    assert shown["beat"] == "9 s ago"
    # A second's sweep is seven late; one of ten seconds has a second left.
    assert shown["late-sweeps"].startswith("1 of ")
    assert shown["clock"] == "-3.2 s"
    assert 'figure-warning" id="overview-tile-clock"' in html
    assert "w3 has been silent for 2 min 9 s" in notices(html)["worker_silent"]


def test_quiet_and_calling_workers_are_counted_for_what_they_take(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """A quiet one has no free slot and serves nobody; one over HTTP is there while it calls."""
    job_type(handler="")
    jobs(1)
    register.register(name="w1", host="h1", capacity=4)
    register.register(name="w2", host="h1", capacity=4)
    register.quiet(worker=Worker.objects.get(name="w2"), actor="admin:olga", reason="New disk")
    factories.worker("pi-1", kind="http", lanes=[], promises_beats=False)

    html = home(admin_client)

    shown = tiles(html)
    assert (shown["workers"], shown["slots"]) == ("2", "0 of 4")
    assert "1 quiet" in html
    assert "w2" in notices(html)["quiet"]
    assert "worker_silent" not in notices(html)

    frozen_clock.advance(seconds=25)
    html = home(admin_client)
    assert tiles(html)["workers"] == "0"
    silent = notices(html)["worker_silent"]
    assert "pi-1" not in silent
    assert "No worker serves the job type mail Start one with its handler, or connect" in silent


def test_stopped_beat_and_missing_workers_are_alarming(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    html = home(admin_client)
    assert tile(html, "beat") == "never"
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass
    frozen_clock.advance(seconds=31)
    html = home(admin_client)
    assert tile(html, "beat") == "31 s ago"
    for key in ("beat", "workers"):
        assert f'figure-danger" id="overview-tile-{key}"' in html


def test_pauses_breakers_and_starving_types_are_shown(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type(
        paused=True,
        pause_reason="The mail server moves",
        paused_until=clock.now() + timedelta(hours=2),
    )
    job_type("web", breaker_enabled=True, breaker_open_seconds=30)
    job_type("calm", breaker_enabled=True)
    TypeState.objects.create(type="web", breaker="open", breaker_since=clock.now())
    TypeState.objects.create(type="calm")
    jobs(1, "web", run_at=clock.now() - timedelta(hours=1))

    html = home(admin_client)

    texts = notices(html)
    assert "mail" in texts["paused"]
    assert "The mail server moves" in texts["paused"]
    assert "until 11:00" in texts["paused"]
    assert "web" in texts["breaker_open"]
    assert "first probe in 30.0 s" in texts["breaker_open"]
    assert "calm" not in texts["breaker_open"]
    assert all(f"serves the job type {name}" in texts["worker_silent"] for name in ("mail", "web"))
    assert "A job of type web has been due for 1 h 0 min" in texts["oldest_due"]


def test_each_first_step_goes_when_it_is_taken(admin_client: Client) -> None:
    add_executor, add_task, add_key = (
        f'href="{reverse(f"admin:{name}_add")}">'
        for name in ("dispatch_executor", "dispatch_oncetask", "access_apiclient")
    )

    def steps() -> list[bool]:
        listed = home(admin_client).partition("<h2>First steps</h2>")[2].partition("</section>")[0]
        return [link in listed for link in (add_executor, add_task, add_key)]

    job_type()
    assert steps() == [True, True, True]
    ann = factories.user("uid_ann")
    assert steps() == [False, True, True]
    factories.once_task(ann)
    assert steps() == [False, False, True]
    create_client(name="Phone", scopes=["pull"], actor="ann")
    html = home(admin_client)
    assert "First steps" not in html
    assert tiles(html)["jobs-ready"] == tiles(html)["dispatches-open"] == "0"
