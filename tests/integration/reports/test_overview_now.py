"""The overview shows how everything stands now, and what to do first."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.access.services import create_client
from apps.common import clock
from apps.common.admin.display import short_text
from apps.common.leases import sweep_lease
from apps.common.models import SweepLease
from apps.dispatch.services import pull
from apps.jobs.models import Job, TypeState, Worker
from apps.jobs.services import register
from apps.reports.admin.overview import figures as module
from apps.reports.models import StandingMinute
from apps.reports.sweeps import note_standing
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.reports.home import figures, home, notices
from tests.jobs import job_type, jobs, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def test_waiting_jobs_and_the_one_that_waits_longest(
    admin_client: Client, role_client: Any
) -> None:
    job_type()
    job_type("sms")
    job_type("held", paused=True)
    jobs(7)
    take(2)
    jobs(3, run_at=clock.now() + timedelta(hours=1))
    jobs(1, "sms", run_at=clock.now() - timedelta(seconds=95), priority=-100)
    # Paused on purpose: nobody waits for it.
    jobs(2, "held", run_at=clock.now() - timedelta(hours=5))

    html = home(admin_client)

    shown = figures(html)["waiting"]
    count = Job.objects.filter(status="ready").count()
    assert shown == (str(count), "oldest 1 min 35 s", "/admin/jobs/job/?status=ready", "")
    rows = re.findall(r'id="home-type-(\w+)">.*?<td><a[^>]*>(\d+)</a></td>', html)
    assert dict(rows) == {"mail": "5", "sms": "1", "held": "2"}
    assert re.search(r'id="home-type-held">.*?home-pill">paused', html)
    acts = re.findall(r'jobtype/act/(\w+)/\?ids=\d+&amp;back=%2Fadmin%2F" title="([^"]+)"', html)
    assert sorted(acts) == [
        ("pause", "Pause mail…"),
        ("pause", "Pause sms…"),
        ("resume", "Resume held…"),
    ]
    assert "/act/pause/" not in home(role_client("viewer"))


def test_counts_end_at_their_limit_and_say_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_COUNTED", 4)
    job_type()
    jobs(6)
    group = factories.group(members=[f"uid_{n}" for n in range(6)])
    factories.once_task(group, mode="multi", dispatch_times=None)
    for n in range(6):
        pull.answer_pull(f"uid_{n}")

    shown = figures(home(admin_client))

    assert (shown["waiting"].value, shown["open"].value) == ("4+", "4+")


def test_open_dispatches_and_those_past_their_deadline(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    group = factories.group(members=["uid_ann", "uid_bob"])
    factories.once_task(group, mode="multi", dispatch_times=2, lease_seconds=60)
    for uid in ("uid_ann", "uid_bob"):
        pull.answer_pull(uid)
        frozen_clock.advance(seconds=10)

    shown = figures(home(admin_client))["open"]
    assert (shown.value, shown.note, shown.tone) == ("2", "none overdue", "")

    frozen_clock.advance(seconds=75)
    shown = figures(home(admin_client))["open"]
    assert (shown.value, shown.note, shown.tone) == ("2", "2 overdue", "warn")


def test_people_who_are_silent_with_work_in_hand(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    factories.group(members=["uid_ann", "uid_bob", "uid_eve"])
    factories.once_task(factories.member("uid_ann"), lease_seconds=3600)
    pull.answer_pull("uid_ann")
    assert figures(home(admin_client))["silent"].value == "0 of 3"
    frozen_clock.advance(minutes=38, seconds=20)
    shown = figures(home(admin_client))["silent"]
    assert (shown.value, shown.note, shown.tone) == ("1 of 3", "holds work, 38 min", "warn")


def test_lines_are_what_was_kept_each_minute(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    for count in (1, 4, 2):
        jobs(count)
        note_standing()
        note_standing()  # once a minute
        frozen_clock.advance(minutes=1)
    assert [*StandingMinute.objects.values_list("waiting", flat=True)] == [1, 5, 7]
    html = home(admin_client)
    (points,) = re.findall(r'id="home-waiting".*?<polyline points="([^"]*)"', html)
    assert len(points.split()) == 3
    frozen_clock.advance(days=8)
    note_standing()
    assert StandingMinute.objects.count() == 1


@pytest.mark.both
def test_groups_are_listed_by_what_they_have_to_fill(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    hour, now = timedelta(hours=1), frozen_clock.instant
    late = factories.group("gid_late", ["uid_ann", "uid_bob"], title="Night shift")
    factories.once_task(late, mode="multi", dispatch_times=2, end_at=now + hour)
    factories.once_task(late, end_at=now + 5 * hour)
    full = factories.group("gid_full", ["uid_eve"])
    factories.once_task(full, end_at=now + hour / 2, priority=5)
    without_end = factories.group("gid_without_end", ["uid_eve"])
    factories.once_task(without_end, start_at=now - hour)
    over = factories.group("gid_over", ["uid_eve"])
    factories.once_task(over, start_at=now - timedelta(days=7), end_at=now + hour)
    soon = factories.group("gid_soon", ["uid_eve"])
    factories.once_task(soon, start_at=now + hour, end_at=now + 2 * hour)
    for uid in ("uid_ann", "uid_eve"):
        pull.answer_pull(uid)

    html = home(admin_client)

    rows = re.findall(r'<tr id="home-group-.*?</tr>', html)
    words = [re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", row)).strip() for row in rows]
    assert words == [
        f"Night shift 2 1 of 2 ends {now + hour:%H:%M}",
        f"gid_without_end 1 0 of 1 ends {short_text(now - hour + timedelta(days=7))}",
        "gid_full 1 1 of 1 full",
        f"gid_soon 1 0 of 1 starts {now + hour:%H:%M}",
    ]


def test_sweeps_stand_on_the_page_of_checks_and_a_late_beat_at_home(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    assert "Beat has never run" in notices(home(admin_client))["beat"]
    for name in ("jobs.scan", "jobs.reorder"):
        with sweep_lease(name, at_most=timedelta(seconds=30)):
            pass
    frozen_clock.advance(seconds=9)
    assert "beat" not in notices(home(admin_client))
    page = admin_client.get(reverse("governance")).content.decode()
    # A second's sweep is late; one of ten seconds has a second left.
    assert re.search(
        r"<td[^>]*>jobs.scan</td><td[^>]*>1 s</td><td[^>]*>9 s ago .*?overdue", page, re.DOTALL
    )
    assert re.search(r"<td[^>]*>jobs.reorder</td><td[^>]*>10 s</td><td[^>]*>9 s ago</td>", page)
    frozen_clock.advance(seconds=31)
    found = notices(home(admin_client))
    assert "No sweep has started since" in found["beat"]
    # One row for all of them.
    assert "sweep_overdue" not in found


def test_quiet_and_silent_workers_are_troubles(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """One over HTTP that promises no heartbeats is there while it calls."""
    job_type(handler="")
    jobs(2)
    register.register(name="w1", host="h1", capacity=4)
    register.register(name="w2", host="h1", capacity=4)
    register.quiet(worker=Worker.objects.get(name="w2"), actor="admin:olga", reason="New disk")
    factories.worker("pi-1", kind="http", lanes=[], promises_beats=False)

    found = notices(home(admin_client))
    assert "w2" in found["quiet"]
    assert "Resume" in found["quiet"]
    assert "worker_silent" not in found

    frozen_clock.advance(seconds=25)
    silent = notices(home(admin_client))["worker_silent"]
    assert "pi-1" not in silent
    assert "No worker serves the job type mail Start one with its handler, or connect" in silent


@pytest.mark.both
def test_pauses_breakers_and_starving_types_are_shown(admin_client: Client) -> None:
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
    assert "first probe in 30 s" in texts["breaker_open"]
    assert "calm" not in texts["breaker_open"]
    # One row for all that lack a worker.
    assert "worker_silent" not in texts
    assert "No worker serves 3 job types" in texts["unserved"]
    assert "calm · mail · web" in texts["unserved"]
    assert "A job of type web has been due for 1 h" in texts["oldest_due"]


def test_several_late_sweeps_are_one_row(admin_client: Client) -> None:
    def ran(name: str, *, ago: timedelta) -> None:
        at = clock.now() - ago
        times = {"started_at": at, "finished_at": at}
        SweepLease.objects.update_or_create(name=name, defaults=times)

    ran("jobs.scan", ago=timedelta())
    ran("jobs.reorder", ago=timedelta(minutes=2))
    ran("jobs.starving", ago=timedelta(minutes=2))

    texts = notices(home(admin_client))

    assert "2 sweeps are late jobs.reorder · jobs.starving" in texts["sweeps_late"]
    assert "sweep_overdue" not in texts

    ran("jobs.reorder", ago=timedelta())
    texts = notices(home(admin_client))
    assert "jobs.starving" in texts["sweep_overdue"]
    assert "sweeps_late" not in texts


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
    shown = figures(html)
    assert shown["waiting"].value == shown["open"].value == "0"
