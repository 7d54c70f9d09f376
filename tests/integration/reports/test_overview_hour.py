"""The last hour on the overview: each figure is what the journal says."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.dispatch.models import Dispatch, Membership
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from apps.reports.admin.overview import lately as lately_admin
from apps.reports.admin.overview.page import known_of
from apps.reports.admin.report import duration, percent
from apps.reports.services import lately
from apps.reports.services.coverage import Stored
from apps.reports.services.lately import Minutes
from taskplatform.demo.terminal import percentile
from tests.frozen import FrozenClock
from tests.home_scenes import MEMBERS
from tests.integration.reports.history import entry, write
from tests.integration.reports.home import ended, home, links, tiles
from tests.jobs import job_type

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_each_figure_of_the_last_hours_is_recomputed_from_the_journal(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    until = Stored.read().closed_until
    assert until is not None
    assert timedelta() < clock.now() - until < timedelta(minutes=2)
    hours = lately.last_hours(Stored.read(), [source])[source]
    html = home(admin_client)

    for hour, (figures, name) in enumerate(zip(hours, ("last", "before"), strict=True)):
        start = until - timedelta(hours=hour + 1)
        rows = ended(source, start, start + timedelta(hours=1))
        good = [each for each in rows if each.to_state == "succeeded"]
        assert rows, name
        assert good, name
        assert len(good) < len(rows), name
        assert figures.ended == len(rows), name
        assert figures.success_rate == pytest.approx(len(good) / len(rows)), name
        # Attempts that another follows waited and ran as well.
        tried = JournalEntry.objects.filter(
            source=source, run_ms__isnull=False, at__gte=start, at__lt=start + timedelta(hours=1)
        )
        assert figures.run_p95 == pytest.approx(
            percentile([each.run_ms for each in tried], 95), rel=0.02
        )
        assert figures.wait_p95 == pytest.approx(
            percentile([each.wait_ms for each in tried], 95), rel=0.02
        )
    last, before = hours
    shown = tiles(html)
    assert shown[f"{source}-ended"] == f"{last.ended:,}"
    assert shown[f"{source}-success"] == percent(last.success_rate)
    assert shown[f"{source}-run"] == duration(last.run_p95)
    assert shown[f"{source}-wait"] == duration(last.wait_p95)
    assert f"hour before: {duration(before.run_p95)}" in html


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_figures_of_the_last_hour_are_those_of_the_report_that_they_lead_to(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    # The hour of the report that ends now is another one than that of the last full minute.
    scene.advance(seconds=71)
    html = home(admin_client)
    shown = tiles(html)
    by = {"job": "type", "dispatch": "task"}[source]
    keys = [f"{source}-{name}" for name in ("ended", "success", "wait", "run")]
    (url,) = links(html, *keys)
    assert f"source={source}&by={by}&" in url
    page = admin_client.get(url)
    texts = {str(tile.title): (tile.text, tile.before) for tile in page.context["tiles"]}
    same = {"success": "success rate", "wait": "wait p95", "run": "run p95"}
    if source == "job":
        # Jobs and the attempts at them are two numbers, here and there.
        same |= {"ended": "jobs ended", "attempts": "attempts ended"}
        assert shown["job-ended"] != shown["job-attempts"]
    for key, title in same.items():
        text, before = texts[title]
        assert shown[f"{source}-{key}"] == text
        assert f"hour before: {before}" in html
    total = page.context["summary"].total
    final = (total.succeeded, total.failed, total.timed_out, total.expired, total.cancelled)
    released = total.released if source == "dispatch" else 0
    assert shown[f"{source}-ended"] == f"{sum(final) + released:,}"


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_what_just_ended_is_shown_before_it_is_added_up(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    until = Stored.read().closed_until
    assert until is not None
    before = len(ended(source, until, clock.now() + timedelta(seconds=1)))
    kinds = {"job": ("failed", "running", "failed"), "dispatch": ("released", "open", "released")}
    again = entry(clock.now(), kind=("failed", "running", "scheduled"))
    write(entry(clock.now(), source, kind=kinds[source]), again)
    html = client_part(admin_client)
    assert tiles(html)[f"{source}-just"] == f"{before + 1:,}"
    (url,) = links(html, f"{source}-just")
    assert len(admin_client.get(url).context["cl"].result_list) == before + 1


def client_part(client: Client) -> str:
    """What an open page fetches every five seconds."""
    until = Stored.read().closed_until
    assert until is not None
    return client.get(reverse("overview"), {"known": known_of(until)}).content.decode()


def test_what_came_in_leads_to_its_list(admin_client: Client, scene: FrozenClock) -> None:
    html = home(admin_client)
    shown = tiles(html)
    for source in ("job", "dispatch"):
        (url,) = links(html, f"{source}-in")
        rows = admin_client.get(url).context["cl"].result_list
        assert shown[f"{source}-in"] == f"{len(rows) / 5:.1f}/min"


def test_flow_is_what_came_and_went_in_the_last_minutes(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = Stored.read().closed_until
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


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_what_went_out_leads_to_the_report_of_those_minutes(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    html = home(admin_client)
    (url,) = links(html, f"{source}-out")
    total = admin_client.get(url).context["summary"].total
    final = (total.succeeded, total.failed, total.timed_out, total.expired, total.cancelled)
    released = total.released if source == "dispatch" else 0
    assert tiles(html)[f"{source}-out"] == f"{(sum(final) + released) / 5:.1f}/min"


def test_flow_is_capped(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lately_admin, "MAX_COUNTED", 5)
    assert tiles(home(admin_client))["job-in"] == "1.0+/min"


def test_trends_of_types_are_minute_by_minute(admin_client: Client, scene: FrozenClock) -> None:
    until = Stored.read().closed_until
    assert until is not None
    minutes = Minutes.read(until, [lately.OF_TYPES])
    found = minutes.trends_of_types(["idle", "mail", "sms"])
    assert found is not None
    assert [each.name for each in found] == ["idle", "mail", "sms"]
    for trend in found:
        rows = [
            each
            for each in ended("job", until - timedelta(hours=1), until)
            if each.type_or_task == trend.name
        ]
        minutes = [int((each.at - until) / timedelta(minutes=1)) - 1 for each in rows]
        assert trend.ended == [minutes.count(n) for n in range(-60, 0)], trend.name
        assert sum(trend.failed) == sum(each.to_state == "failed" for each in rows)
    html = home(admin_client)
    assert f"{found[1].total} ended in the last hour" in html
    assert "Nothing ended in the last hour." in html


def test_trends_of_groups_are_those_of_their_members(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = Stored.read().closed_until
    assert until is not None
    minutes = Minutes.read(until, [lately.OF_GROUPS])
    found = minutes.trends_of_groups(sorted(MEMBERS))
    assert found is not None
    rows = ended("dispatch", until - timedelta(hours=1), until)
    for trend in found:
        members = Membership.objects.filter(group__name=trend.name)
        names = set(members.values_list("user__name", flat=True))
        assert trend.total == sum(each.executor in names for each in rows) > 0
    assert [each.name for each in found] == sorted(MEMBERS)
    assert "/admin/dispatch/dispatch/?executor=gid_shops" in home(admin_client)


def test_busiest_are_drawn_and_too_many_are_not(
    scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = Stored.read().closed_until
    assert until is not None
    kinds = [lately.OF_TYPES, lately.OF_GROUPS]
    monkeypatch.setattr(lately, "MAX_DRAWN", 1)
    types = Minutes.read(until, kinds).trends_of_types(["idle"])
    assert [each.name for each in types or []] == ["mail"]
    monkeypatch.setattr(lately, "MAX_READ", 10)
    minutes = Minutes.read(until, kinds)
    assert minutes.trends_of_types([]) is None
    assert minutes.trends_of_groups([]) is None


def test_a_refresh_has_what_lacks_of_the_newest_hour_part_by_part(
    admin_client: Client, scene: FrozenClock
) -> None:
    whole = home(admin_client)
    parts = ["overview-hour", "overview-trends", "overview-present"]
    known = re.findall(r'data-known="([^"]+)"', whole)
    assert len(known) == 2

    answers = [refresh(admin_client, known=known[:count]) for count in range(3)]

    for part, html in zip(parts, answers, strict=True):
        assert re.findall(r'^\s*<div id="([^"]+)"', html, flags=re.MULTILINE)[0] == part
        assert [each for each in parts if f'id="{each}"' in html] == [part]
    assert tiles(answers[0]).items() <= tiles(whole).items()
    assert sorted(key for html in answers for key in tiles(html)) == sorted(tiles(whole))
    old = [f"{each.rstrip('0123456789')}60" for each in known]
    assert refresh(admin_client, known=old) == answers[0]


def refresh(client: Client, **query: Any) -> str:
    """What a page that is open asks for."""
    return client.get(reverse("overview"), query).content.decode()


def test_nothing_added_up_yet_is_said(admin_client: Client, frozen_clock: FrozenClock) -> None:
    job_type()
    assert "once the first full minute" in home(admin_client)
