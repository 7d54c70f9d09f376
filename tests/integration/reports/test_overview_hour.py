"""The last hour on the home page: each figure is what the journal says, up to now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert
from apps.common import clock
from apps.journal.models import JournalEntry
from apps.reports.admin.overview.page import known_of
from apps.reports.services import last_minutes, lately
from apps.reports.services.columns import duration, percent
from apps.reports.services.coverage import Stored
from apps.reports.services.lately import Window
from taskplatform.demo.terminal import percentile
from tests.alerts import rule
from tests.frozen import FrozenClock
from tests.integration.reports.history import entry, write
from tests.integration.reports.home import closed_until, ended, figures, home

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scene")]

MINUTE = timedelta(minutes=1)


def window(source: str, hours: int = 1) -> Window:
    stored = Stored.read()
    since = stored.closed_until or clock.now() - timedelta(minutes=15)
    newest = last_minutes.unsummed(since, 5_000)
    chosen = lately.selection(source, None)
    return lately.window(clock.now(), stored, newest, chosen, hours_back=hours)


def hour_of_now() -> datetime:
    """When the first of the sixty minutes began; the newest is the running one."""
    return clock.now().replace(second=0, microsecond=0) - 59 * MINUTE


def test_figures_of_the_hour_are_recomputed_from_the_journal(admin_client: Client) -> None:
    # Something that no total has yet.
    write(entry(clock.now()), entry(clock.now(), kind=("failed", "running", "failed")))
    assert closed_until() < clock.now()
    start, end = hour_of_now(), clock.now() + MINUTE
    rows = ended("job", start, end)
    good = [each for each in rows if each.to_state == "succeeded"]
    last = window("job")
    assert (last.ended, last.failed) == (len(rows), len(rows) - len(good))
    tried = JournalEntry.objects.filter(
        source="job", run_ms__isnull=False, at__gte=start, at__lt=end
    )
    for name, column in (("waits", "wait_ms"), ("runs", "run_ms")):
        wanted = percentile([getattr(each, column) for each in tried], 95)
        assert last.p95(name) == pytest.approx(wanted, rel=0.02)

    shown = figures(home(admin_client))

    assert shown["succeeded"].value == percent(len(good) / len(rows))
    assert shown["wait"].value == duration(last.p95("waits"))
    assert shown["run"].value == duration(last.p95("runs"))


def test_yesterday_is_the_same_hour_a_day_ago(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = figures(home(admin_client))
    assert shown["succeeded"].note == "yesterday –"
    scene.advance(days=1)
    shown = figures(home(admin_client))
    assert shown["succeeded"].value == "–"
    until = scene.instant.replace(second=0, minute=scene.instant.minute // 15 * 15)
    until -= timedelta(days=1)
    rows = ended("job", until - timedelta(hours=1), until)
    good = sum(each.to_state == "succeeded" for each in rows)
    assert shown["succeeded"].note == f"yesterday {percent(good / len(rows))}"


def test_window_ends_with_the_totals_when_too_much_has_ended_since() -> None:
    write(entry(clock.now()), entry(clock.now()))
    stored = Stored.read()
    until = closed_until()
    newest = last_minutes.unsummed(until, 1)
    assert not newest.is_whole
    found = lately.window(clock.now(), stored, newest, lately.selection("job", None))
    assert found.until == until
    start = until.replace(second=0) - 59 * MINUTE
    assert found.ended == len(ended("job", start, until))


def test_chart_has_each_minute_with_its_figures(admin_client: Client) -> None:
    write(entry(clock.now()))
    html = home(admin_client)
    (chart,) = re.findall(r'id="overview-trends".*?</section>', html, flags=re.DOTALL)
    rows = ended("job", hour_of_now(), clock.now() + MINUTE)
    drawn = re.findall(r"<title>(\d\d:\d\d): (\d+) ended, (\d+) failed</title>", chart)
    assert len(drawn) == 60
    assert drawn[-1][0] == f"{clock.now():%H:%M}"
    for minute, count, failed in drawn:
        of_it = [each for each in rows if f"{each.at:%H:%M}" == minute]
        assert int(count) == len(of_it)
        assert int(failed) == sum(each.to_state == "failed" for each in of_it)
    (scale,) = re.findall(r'class="chart-scale".*?</div>', chart)
    top, half, zero = map(int, re.findall(r"<span>(\d+)</span>", scale))
    assert max(int(count) for _minute, count, _failed in drawn) <= top
    assert (half, zero) == (top / 2, 0)
    dispatches = ended("dispatch", hour_of_now(), clock.now() + MINUTE)
    assert f"dispatches ended: {len(dispatches)}" in chart
    assert 'class="dispatches"' in chart


@pytest.mark.parametrize("hours", [24, 168])
def test_longer_charts_are_in_longer_steps(admin_client: Client, hours: int) -> None:
    found = window("job", hours)
    assert found.ended == len(ended("job", clock.now() - timedelta(days=8), clock.now() + MINUTE))
    html = home(admin_client, hours=hours)
    assert f'href="/admin/?hours={hours}" aria-current="true"' in html
    assert f"/admin/overview/?hours={hours}" in html


def test_alert_is_marked_where_it_began(admin_client: Client) -> None:
    assert "chart-mark" not in home(admin_client)
    at = clock.now() - timedelta(minutes=16)
    columns = {"subject": "job_type:mail", "open_key": "x", "since": at, "fired_at": at}
    Alert.objects.create(rule=rule("Bad"), value=0.4, **columns)
    html = home(admin_client)
    assert re.search(rf'chart-mark" style="left:7[0-9.]+%"><span>{at:%H:%M} alert<', html)
    early = clock.now() - timedelta(minutes=50)
    Alert.objects.update(since=early, fired_at=early)
    named = rf'chart-mark chart-mark-early" style="left:1[0-9.]+%"><span>{early:%H:%M} alert<'
    assert re.search(named, home(admin_client))


def test_a_refresh_has_the_newest_chart_first_and_then_the_present(admin_client: Client) -> None:
    whole = home(admin_client)
    (known,) = re.findall(r'data-known="([^"]+)"', whole)
    assert known == known_of(closed_until())

    chart, present = refresh(admin_client, known="60"), refresh(admin_client, known=known)

    assert re.findall(r'^\s*<(?:section|div|time)[^>]* id="([^"]+)"', chart)[0] == "overview-trends"
    first = re.findall(r'<(?:section|div|time)[^>]* id="([^"]+)"', present)
    assert first[0] == "overview-present"
    assert {"home-now", "overview-tables"} <= {*first}
    assert "overview-trends" not in first
    assert figures(present) == figures(whole)


def refresh(client: Client, **query: Any) -> str:
    """What a page that is open asks for."""
    return client.get(reverse("overview"), query).content.decode()
