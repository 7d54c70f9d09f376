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
from apps.reports.admin.overview.page import known_of
from apps.reports.services import flow, lately
from apps.reports.services.columns import duration, percent
from apps.reports.services.coverage import Stored
from apps.reports.services.lately import Minutes
from taskplatform.demo.terminal import percentile
from tests.frozen import FrozenClock
from tests.home_scenes import MEMBERS
from tests.integration.reports.history import entry, write
from tests.integration.reports.home import closed_until, ended, home, links, tiles

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_each_figure_of_the_last_hours_is_recomputed_from_the_journal(
    admin_client: Client, scene: FrozenClock, subtests: pytest.Subtests
) -> None:
    for source in ["job", "dispatch"]:
        with subtests.test(source=source):
            until = closed_until()
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
                    source=source,
                    run_ms__isnull=False,
                    at__gte=start,
                    at__lt=start + timedelta(hours=1),
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


def test_figures_of_the_last_hour_are_those_of_the_report_that_they_lead_to(
    admin_client: Client, scene: FrozenClock, subtests: pytest.Subtests
) -> None:
    for source in ["job", "dispatch"]:
        with subtests.test(source=source):
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
                same |= {"ended": "jobs ended"}
                assert f"{texts['attempts ended'][0]} attempts" in html
                assert shown["job-ended"] != texts["attempts ended"][0]
            for key, title in same.items():
                text, before = texts[title]
                assert shown[f"{source}-{key}"] == text
                assert f"hour before: {before}" in html
            total = page.context["summary"].total
            final = (total.succeeded, total.failed, total.timed_out, total.expired, total.cancelled)
            released = total.released if source == "dispatch" else 0
            assert shown[f"{source}-ended"] == f"{sum(final) + released:,}"


def minutes_shown(html: str, key: str) -> tuple[str, str, str]:
    """The rate of a tile, how many that is, and since when."""
    note = r"<span[^>]*>(.*?)</span>"
    (found,) = re.findall(rf'id="overview-tile-{key}".*?<strong>(.*?)</strong>{note}{note}', html)
    return found


@pytest.mark.parametrize("source", ["job", "dispatch"])
def test_what_came_and_ended_is_shown_before_it_is_added_up(
    admin_client: Client, scene: FrozenClock, source: str
) -> None:
    since = clock.now().replace(second=0) - timedelta(minutes=5)
    minutes = (clock.now() - since) / timedelta(minutes=1)
    model, column = {"job": (Job, "created_at"), "dispatch": (Dispatch, "dispatched_at")}[source]
    kinds = {"job": ("failed", "running", "failed"), "dispatch": ("released", "open", "released")}
    again = entry(clock.now(), kind=("failed", "running", "scheduled"))
    write(entry(clock.now(), source, kind=kinds[source]), again)

    html = client_part(admin_client)

    until = closed_until()
    assert ended(source, since, until)
    went = len(ended(source, since, clock.now() + timedelta(seconds=1)))
    came = model._default_manager.filter(**{f"{column}__gte": since}).count()
    one, many = {"job": ("job", "jobs"), "dispatch": ("dispatch", "dispatches")}[source]
    for key, count in (("in", came), ("out", went)):
        tile = minutes_shown(html, f"{source}-{key}")
        assert tile == (
            f"{count / minutes:.1f}/min",
            f"{count} {one if count == 1 else many}",
            f"since {since:%H:%M} UTC",
        )
        (url,) = links(html, f"{source}-{key}")
        assert len(admin_client.get(url).context["cl"].result_list) == min(count, 50)


def client_part(client: Client) -> str:
    """What an open page fetches every few seconds."""
    return refresh(client, known=known_of(closed_until()))


def test_rates_end_with_the_totals_when_too_much_has_ended_since(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = closed_until()
    write(entry(clock.now()), entry(clock.now()))
    monkeypatch.setattr("apps.reports.services.standing._MAX_READ", 1)
    html = client_part(admin_client)
    count = len(ended("job", until - timedelta(minutes=5), until))
    rate = f"{count / 5:.1f}/min"
    assert minutes_shown(html, "job-out") == (rate, f"{count} jobs", f"as of {until:%H:%M} UTC")
    for key in ("job-in", "job-out"):
        (url,) = links(html, key)
        assert f"since={until - timedelta(minutes=5):%Y-%m-%dT%H%%3A%M}Z&until=" in url


def test_flow_is_capped(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "MAX_CAME", 5)
    rate, count, _since = minutes_shown(home(admin_client), "job-in")
    assert rate.endswith("+/min")
    assert count == "5+ jobs"


def test_trends_of_types_are_minute_by_minute(admin_client: Client, scene: FrozenClock) -> None:
    until = closed_until()
    minutes = Minutes.read(until, [lately.OF_TYPES])
    found = minutes.trends_of_types()
    assert found is not None
    # The type without an end in this hour is left out.
    assert [each.name for each in found] == ["mail"]
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
    assert f"{found[0].total} ended in the last hour" in html
    assert "overview-type-mail" in html
    assert "overview-type-idle" not in html


def test_trends_of_groups_are_those_of_their_members(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = closed_until()
    minutes = Minutes.read(until, [lately.OF_GROUPS])
    found = minutes.trends_of_groups()
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
    until = closed_until()
    kinds = [lately.OF_TYPES, lately.OF_GROUPS]
    monkeypatch.setattr(lately, "MAX_DRAWN", 1)
    types = Minutes.read(until, kinds).trends_of_types()
    assert [each.name for each in types or []] == ["mail"]
    monkeypatch.setattr(lately, "MAX_READ", 10)
    minutes = Minutes.read(until, kinds)
    assert minutes.trends_of_types() is None
    assert minutes.trends_of_groups() is None


def test_charts_have_axes_and_the_figures_of_each_minute(
    admin_client: Client, scene: FrozenClock
) -> None:
    until = closed_until()
    html = home(admin_client)
    for source in ("job", "dispatch"):
        (chart,) = re.findall(rf'id="overview-chart-{source}".*?</section>', html, flags=re.DOTALL)
        rows = ended(source, until - timedelta(hours=1), until)
        drawn = re.findall(r"<title>(\d\d:\d\d): (\d+) ended, (\d+) failed</title>", chart)
        assert len(drawn) == 60
        for minute, count, failed in drawn:
            of_it = [each for each in rows if f"{each.at:%H:%M}" == minute]
            assert int(count) == len(of_it)
            assert int(failed) == sum(each.to_state in ("failed", "expired") for each in of_it)
        (scale,) = re.findall(r'class="minute-scale".*?</div>', chart)
        top, half, zero = map(int, re.findall(r"<span>(\d+)</span>", scale))
        assert max(int(count) for _minute, count, _failed in drawn) <= top < 60
        assert (half, zero) == (top / 2, 0)
        # Drawn to the scale of the axis, in a picture of 28 units.
        (path,) = re.findall(r'<path class="" d="([^"]*)"', chart)
        highest = max(float(high) for high in re.findall(r"v-([\d.]+)h", path))
        most = max(int(count) for _minute, count, _failed in drawn)
        assert highest == pytest.approx(28 * most / top, abs=0.06)
        assert len(re.findall(r"left:[\d.]+%\">\d\d:\d0<", chart)) == 6


def test_a_refresh_has_the_newest_trends_first_and_then_the_present(
    admin_client: Client, scene: FrozenClock
) -> None:
    whole = home(admin_client)
    (known,) = re.findall(r'data-known="([^"]+)"', whole)

    parts = {
        "overview-trends": refresh(admin_client, known="60"),
        "overview-present": refresh(admin_client, known=known),
    }

    for part, html in parts.items():
        assert re.findall(r'^\s*<div id="([^"]+)"', html, flags=re.MULTILINE)[0] == part
        assert [each for each in parts if f'id="{each}"' in html] == [part]
    assert refresh(admin_client) == parts["overview-trends"]
    assert tiles(parts["overview-present"]).keys() == tiles(whole).keys()


def refresh(client: Client, **query: Any) -> str:
    """What a page that is open asks for."""
    return client.get(reverse("overview"), query).content.decode()
