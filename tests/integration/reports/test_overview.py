"""The overview: each figure is what the rows say, for whom it is, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.models import Dispatch, Membership, OperatorScope
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.jobs.services import register
from apps.journal.admin.words import duration_of
from apps.journal.models import JournalEntry
from apps.reports.admin.overview import lately as lately_admin
from apps.reports.admin.overview import present
from apps.reports.services import lately
from tests import factories
from tests.frozen import FrozenClock
from tests.home_scenes import MEMBERS, two_hours
from tests.jobs import job_type, jobs, take

pytestmark = pytest.mark.django_db
HOME = "/admin/"
FINAL = ("succeeded", "failed", "cancelled")


def home(client: Client, **query: Any) -> str:
    page = client.get(HOME, query)
    assert page.status_code == 200
    return page.content.decode()


def tile(html: str, key: str) -> str:
    """The figure of a tile."""
    (found,) = re.findall(
        rf'id="overview-tile-{key}".*?<strong>(.*?)</strong>', html, flags=re.DOTALL
    )
    return str(found)


def tiles(html: str) -> dict[str, str]:
    keys = re.findall(r'id="overview-tile-([^"]+)"', html)
    return {key: tile(html, key) for key in keys}


def notices(html: str) -> dict[str, str]:
    found = re.findall(r'id="overview-notice-(\w+)"(.*?)</div>', html, flags=re.DOTALL)
    return {key: re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", text)) for key, text in found}


def p95(values: Iterable[int]) -> int:
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


@pytest.fixture
def scene(frozen_clock: FrozenClock) -> FrozenClock:
    two_hours(frozen_clock)
    return frozen_clock


# --- what stands now ----------------------------------------------------------------------------
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
    monkeypatch.setattr(present, "MOST_COUNTED", 4)
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


def test_workers_beat_and_sweeps_tell_how_they_are(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("w1", "w2", "w3"):
        register.register(name=name, host="h1", capacity=4)
    register.beat(name="w1", drains={"fast": 1}, running=3)
    Worker.objects.filter(name="w3").update(last_heartbeat_at=clock.now() - timedelta(minutes=2))
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass
    with sweep_lease("jobs.reorder", at_most=timedelta(seconds=30)):
        pass
    frozen_clock.advance(seconds=9)
    monkeypatch.setattr(clock, "drift", lambda: timedelta(seconds=-3.21))

    html = home(admin_client)

    shown = tiles(html)
    assert (shown["workers"], shown["places"]) == ("2", "3 of 8")
    assert "heartbeat 9 s ago" in html
    assert shown["beat"] == "9 s ago"
    # A second's sweep is seven late; one of ten seconds has a second left.
    assert shown["late-sweeps"].startswith("1 of ")
    assert shown["clock"] == "-3.2 s"
    assert 'figure-warning" id="overview-tile-clock"' in html
    assert "w3" in notices(html)["silent"]


def test_silent_beat_and_missing_workers_are_alarming(
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


def test_pauses_breakers_and_starving_types_are_told(
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

    told = notices(html)
    assert "mail" in told["paused"]
    assert "The mail server moves" in told["paused"]
    assert "until 2026-03-02 11:00" in told["paused"]
    assert "web" in told["breakers"]
    assert "in 30 s" in told["breakers"]
    assert "calm" not in told["breakers"]
    assert "No live worker serves these types" in html
    assert "web: the next one for 1 h 0 min" in html


# --- the last hour ------------------------------------------------------------------------------
def ended(source: str, since: Any, until: Any) -> list[JournalEntry]:
    entries = JournalEntry.objects.filter(source=source, at__gte=since, at__lt=until)
    return [each for each in entries if each.to_state in (*FINAL, "expired", "released")]


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_each_figure_of_the_last_hours_is_recomputed_from_the_journal(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    until = lately.closed_until()
    assert until is not None
    assert timedelta() < clock.now() - until < timedelta(minutes=2)
    hours = lately.last_hours([source], until)[source]
    html = home(admin_client)

    for hour, (told, name) in enumerate(zip(hours, ("last", "before"), strict=True)):
        start = until - timedelta(hours=hour + 1)
        rows = ended(source, start, start + timedelta(hours=1))
        good = [each for each in rows if each.to_state == "succeeded"]
        assert rows, name
        assert good, name
        assert len(good) < len(rows), name
        assert told.ended == len(rows), name
        assert told.success_rate == pytest.approx(len(good) / len(rows)), name
        # Attempts that another follows waited and ran as well.
        tried = JournalEntry.objects.filter(
            source=source, run_ms__isnull=False, at__gte=start, at__lt=start + timedelta(hours=1)
        )
        assert told.run_p95 == pytest.approx(p95(each.run_ms for each in tried), rel=0.02)
        assert told.wait_p95 == pytest.approx(p95(each.wait_ms for each in tried), rel=0.02)
    last, before = hours
    shown = tiles(html)
    assert shown[f"{source}-ended"] == f"{last.ended:,}"
    assert shown[f"{source}-success"] == f"{math.floor(1000 * last.success_rate) / 10:.1f} %"  # type: ignore[operator]
    assert shown[f"{source}-run"] == duration_of(last.run_p95 or 0)
    assert shown[f"{source}-wait"] == duration_of(last.wait_p95 or 0)
    assert f"hour before: {duration_of(before.run_p95 or 0)}" in html
    by = {"job": "type", "dispatch": "task"}[source]
    report = f"/admin/reports/?source={source}&amp;by={by}&amp;period=1h"
    assert f'id="overview-tile-{source}-ended" href="{report}"' in html
    assert admin_client.get(report.replace("&amp;", "&")).status_code == 200


def test_flow_is_what_came_and_went_in_the_last_minutes(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = lately.closed_until()
    assert until is not None
    since = until - timedelta(minutes=5)
    came = Job.objects.filter(created_at__gte=since, created_at__lt=until).count()
    handed = Dispatch.objects.filter(dispatched_at__gte=since, dispatched_at__lt=until).count()
    shown = tiles(home(admin_client))
    assert came > 10
    assert shown["job-in"] == f"{came / 5:.1f}/min"
    assert shown["job-out"] == f"{len(ended('job', since, until)) / 5:.1f}/min"
    assert shown["dispatch-in"] == f"{handed / 5:.1f}/min"
    assert shown["dispatch-out"] == f"{len(ended('dispatch', since, until)) / 5:.1f}/min"


def test_flow_is_capped(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lately_admin, "MOST_COUNTED", 5)
    assert tiles(home(admin_client))["job-in"] == "1.0+/min"


def test_courses_of_types_are_minute_by_minute(admin_client: Client, scene: FrozenClock) -> None:
    until = lately.closed_until()
    assert until is not None
    found = lately.courses_of_types(until, ["idle", "mail", "sms"])
    assert found is not None
    assert [each.name for each in found] == ["idle", "mail", "sms"]
    for course in found:
        rows = [
            each
            for each in ended("job", until - timedelta(hours=1), until)
            if each.type_or_task == course.name
        ]
        minutes = [int((each.at - until) / timedelta(minutes=1)) - 1 for each in rows]
        assert course.ended == [minutes.count(n) for n in range(-60, 0)], course.name
        assert sum(course.unlucky) == sum(each.to_state == "failed" for each in rows)
    html = home(admin_client)
    assert f"{found[1].total} ended in the last hour" in html
    assert "Nothing ended in the last hour." in html


def test_courses_of_groups_are_those_of_their_members(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = lately.closed_until()
    assert until is not None
    found = lately.courses_of_groups(until, sorted(MEMBERS))
    assert found is not None
    rows = ended("dispatch", until - timedelta(hours=1), until)
    for course in found:
        members = Membership.objects.filter(group__name=course.name)
        names = set(members.values_list("user__name", flat=True))
        assert course.total == sum(each.executor in names for each in rows) > 0
    assert [each.name for each in found] == sorted(MEMBERS)
    assert "/admin/dispatch/dispatch/?executor=gid_shops" in home(admin_client)


def test_busiest_are_drawn_and_too_many_are_not(
    scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = lately.closed_until()
    assert until is not None
    monkeypatch.setattr(lately, "MOST_DRAWN", 1)
    assert [each.name for each in lately.courses_of_types(until, ["idle"]) or []] == ["mail"]
    monkeypatch.setattr(lately, "MOST_READ", 10)
    assert lately.courses_of_types(until, []) is None
    assert lately.courses_of_groups(until, []) is None


def test_hour_is_left_out_for_who_has_it(admin_client: Client, scene: FrozenClock) -> None:
    url = reverse("overview")
    html = admin_client.get(url).content.decode()
    (known,) = re.findall(r'data-known="(\d+)"', html)
    assert "overview-tile-job-ended" in html

    again = admin_client.get(url, {"known": known}).content.decode()

    assert "overview-tile-job-ended" not in again
    assert "overview-tile-jobs-ready" in again
    assert "overview-tile-job-ended" in admin_client.get(url, {"known": "1"}).content.decode()


def test_nothing_added_up_yet_is_said(admin_client: Client, frozen_clock: FrozenClock) -> None:
    job_type()
    assert "come with the first full minute" in home(admin_client)


# --- an empty platform --------------------------------------------------------------------------
def test_empty_platform_says_what_to_do_first(
    admin_client: Client, role_client: Callable[[str], Client]
) -> None:
    html = home(admin_client)
    assert "First steps" in html
    for name in ("dispatch_executor", "dispatch_oncetask", "access_apiclient", "jobs_jobtype"):
        assert reverse(f"admin:{name}_add") in html
    assert "overview-tile-jobs-ready" not in html
    assert "First steps" not in home(role_client("viewer"))


def test_first_steps_go_when_they_are_taken(admin_client: Client) -> None:
    job_type()
    factories.user("uid_ann")
    html = home(admin_client)
    assert "First steps" not in html
    assert tiles(html)["jobs-ready"] == tiles(html)["dispatches-open"] == "0"


# --- for whom -----------------------------------------------------------------------------------
def person(*permissions: str) -> Client:
    user = User.objects.create_user("pat", is_staff=True)
    for name in permissions:
        app, _, codename = name.partition(".")
        found = Permission.objects.get(content_type__app_label=app, codename=codename)
        user.user_permissions.add(found)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.parametrize(
    ("permission", "prefixes"),
    [
        ("jobs.view_job", {"jobs"}),
        ("dispatch.view_dispatch", {"dispatches"}),
        ("jobs.view_worker", {"workers", "places"}),
        ("common.view_sweeplease", {"beat", "late", "clock"}),
        ("jobs.view_jobtype", set()),
        ("reports.view_rollup", set()),
    ],
)
def test_box_is_there_only_with_its_permission(
    scene: FrozenClock, permission: str, prefixes: set[str]
) -> None:
    html = home(person(permission))
    assert {key.partition("-")[0] for key in tiles(html)} == prefixes
    assert "overview-types" not in html


def test_totals_need_their_permission_besides(scene: FrozenClock) -> None:
    html = home(person("jobs.view_job", "reports.view_rollup"))
    assert {key.partition("-")[0] for key in tiles(html)} == {"jobs", "job"}
    assert "overview-types" in html
    assert "overview-groups" not in html


def test_person_without_a_role_gets_nothing(scene: FrozenClock) -> None:
    client = person()
    assert "overview" not in home(client).replace("overview.js", "")
    assert client.get(reverse("overview")).content.decode().strip() == ""


def test_stranger_is_sent_to_sign_in(client: Client, db: None) -> None:
    answer = client.get(reverse("overview"))
    assert answer.status_code == 302
    assert answer["Location"].startswith("/admin/login/")


def test_operator_with_scopes_sees_dispatches_of_their_executors_only(
    scene: FrozenClock, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    user = role_user("operator")
    OperatorScope.objects.create(operator=user, executor=factories.member("uid_ann"))
    factories.once_task(factories.member("uid_ann"), "Mine")
    factories.once_task(factories.member("uid_eve"), "Another's")
    for uid in ("uid_ann", "uid_eve"):
        pull.answer_pull(uid)
    until = lately.closed_until()
    assert until is not None
    own = [
        each
        for each in ended("dispatch", until - timedelta(hours=1), until)
        if each.executor == "uid_ann"
    ]

    html = home(role_client("operator"))

    assert Dispatch.objects.filter(state="open").count() == 2
    assert tile(html, "dispatches-open") == "1"
    assert own
    assert tile(html, "dispatch-ended") == str(len(own))
    assert "dispatch-in" not in tiles(html)
    assert "gid_nights" not in html
    assert "overview-tile-job-ended" in html


# --- what it costs ------------------------------------------------------------------------------
def statements(client: Client, **query: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        client.get(reverse("overview"), query)
    return [each["sql"] for each in queries]


def test_as_many_statements_however_much_there_is(admin_client: Client, scene: FrozenClock) -> None:
    until = lately.closed_until()
    known = str(int(until.timestamp())) if until else ""
    jobs(1)
    few = statements(admin_client)
    refresh = statements(admin_client, known=known)
    now = clock.now()
    JobType.objects.bulk_create(
        [JobType(name=f"type-{n}", created_at=now, updated_at=now) for n in range(60)]
    )
    jobs(300, "type-7")
    for n in range(20):
        register.register(name=f"w{n}", host=f"h{n}", capacity=4)
        factories.group(f"gid_{n}", members=[f"uid_{n}"])

    assert len(statements(admin_client)) == len(few) <= 28
    assert len(statements(admin_client, known=known)) == len(refresh) <= 16


@pytest.mark.django_db(transaction=True)  # ANALYZE TABLE commits
def test_no_statement_reads_jobs_that_are_over(admin_client: Client, scene: FrozenClock) -> None:
    """S4.12: history never slows what is asked every few seconds."""
    jobs(400, status="succeeded", finished_at=clock.now())
    jobs(5, status="failed", finished_at=clock.now())
    jobs(5)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "ANALYZE TABLE jobs_job")
        cursor.fetchall()
    asked = [sql for sql in statements(admin_client) if 'FROM "jobs_job"' in sql.replace("`", '"')]
    assert len(asked) >= 3

    for sql in asked:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
                steps = [str(row[-1]) for row in cursor.fetchall()]
                for step in (step for step in steps if "jobs_job" in step):
                    own = r"job_(claim_ready|due_scheduled|lease_running|failed)|id>\? AND id<\?"
                    assert re.search(own, step), steps
            else:
                cursor.execute("EXPLAIN " + sql.replace("%", "%%"))
                columns = [column[0] for column in cursor.description]
                for row in cursor.fetchall():
                    step = dict(zip(columns, row, strict=True))
                    if step["table"] == "jobs_job":
                        assert step["key"] in {"job_claim", "job_due", "PRIMARY"}, step
                        assert step["key"] != "PRIMARY" or step["type"] == "range", step
                        assert "filesort" not in str(step["Extra"]), step
