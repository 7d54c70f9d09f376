"""Short periods are shown by minute, as long as minutes are kept."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.reports.services.rollup import roll_up
from apps.reports.services.summary import Period, summarise
from tests.clients import JsonClient
from tests.frozen import FrozenClock
from tests.integration.reports import output
from tests.integration.reports.history import Naive, drawn, entry, utc, value_of, write
from tests.pages import tables_of, text_of

pytestmark = pytest.mark.django_db
NOW = utc("2026-03-03T13:52:10")
URL = reverse("report")


@pytest.fixture
def busy(frozen_clock: FrozenClock) -> list[Any]:
    """Two busy hours, added up."""
    frozen_clock.move_to(NOW)
    entries = drawn(400, NOW - timedelta(hours=2), NOW - timedelta(minutes=3))
    write(entry(NOW - timedelta(days=1)), *entries)
    roll_up(until=clock.now() + timedelta(minutes=1))
    return entries


def charted(client: Client, **query: str) -> dict[str, Any]:
    """What the chart through time is given."""
    page = client.get(URL, query)
    assert page.status_code == 200
    return page.context["figures"]["time"]


def test_minutes_are_what_their_entries_add_up_to(
    busy: list[Any], subtests: pytest.Subtests
) -> None:
    for zone in ["UTC", "Asia/Kathmandu"]:
        period = Period(NOW - timedelta(hours=2), NOW, ZoneInfo(zone))
        for source in ["job", "dispatch"]:
            with subtests.test(zone=zone, source=source):
                found = summarise(source, "minute", period)
                assert len(found.rows) > 110
                Naive().check(found, source, "minute", period)


def test_last_hour_of_the_groups_is_drawn_by_minute(admin_client: Client, busy: list[Any]) -> None:
    time = charted(admin_client, period="1h")
    assert len(time["names"]) >= 58
    assert time["names"][0] == "12:53"
    ended = sum(sum(series["values"]) for series in time["series"])
    page = admin_client.get(URL, {"period": "1h"})
    assert page.context["tiles"][1].text == str(ended) != "0"
    assert len(charted(admin_client, period="24h")["names"]) == 24


def test_table_and_csv_by_minute_are_held_against_the_journal(
    admin_client: Client, busy: list[Any]
) -> None:
    query = {"by": "minute", "from": "2026-03-03T11:52:10", "to": "2026-03-03T13:49:00"}
    query["columns"] = "all"
    page = admin_client.get(URL, query)
    head, *rows = tables_of(page)[0]
    jobs = [each for each in busy if each.source == "job" and each.at < utc("2026-03-03T13:49:00")]
    figures = output.of_table([cell.text for cell in head], [[c.text for c in row] for row in rows])

    def minute_of(each: Any) -> str:
        return f"{each.at:%H:%M}"

    # Minutes without figures are left out.
    assert 40 < len(figures) <= len({*map(minute_of, jobs), "total"})

    output.check(figures, jobs, minute_of, rounded=True)
    exported = admin_client.get(reverse("report_csv"), query).content.decode("utf-8-sig")
    assert next(csv.reader(io.StringIO(exported)))[0] == "minute"
    output.check(output.of_csv(exported), jobs, lambda each: f"{each.at:%Y-%m-%dT%H:%M}+00:00")


@pytest.mark.both
@pytest.mark.parametrize(("source", "by"), [("job", "type"), ("dispatch", "executor")])
def test_csv_and_api_are_held_against_the_journal(
    admin_client: Client, api: JsonClient, busy: list[Any], source: str, by: str
) -> None:
    of, group_of = {"source": source, "by": by}, partial(value_of, by=by)
    period = {"from": "2026-03-03T11:00:00", "to": "2026-03-03T13:50:00"}
    entries = [each for each in busy if each.source == source]
    file = admin_client.get(reverse("report_csv"), {**of, **period}).content.decode("utf-8-sig")
    output.check(output.of_csv(file), entries, group_of)
    period = {name: f"{instant}Z" for name, instant in period.items()}
    answer = api.get("/api/v1/reports/summary/", **of, **period).json()
    output.check(output.of_api(answer), entries, group_of)


def test_tab_is_there_for_short_periods_and_longer_ones_go_back_to_hours(
    admin_client: Client, busy: list[Any]
) -> None:
    def addresses(**query: str) -> list[str]:
        controls = admin_client.get(URL, query).context["controls"]
        return [option.url for name in ("tabs", "presets") for option in controls[name]]

    assert not any("by=minute" in url for url in addresses(period="24h"))
    offered = addresses(by="minute", period="1h")
    assert [url for url in offered if "by=minute" in url] == [
        "?source=job&by=minute&period=1h&zone=UTC"
    ] * 2
    assert "?source=job&by=hour&period=24h&zone=UTC" in offered


def test_minutes_that_are_not_kept_are_hours_and_a_notice_says_so(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    frozen_clock.move_to(NOW)
    write(entry(utc("2026-02-01T10:20:00")), entry(NOW - timedelta(hours=2)))
    roll_up(until=clock.now() + timedelta(minutes=1))
    for query in [{"period": "24h"}, {"from": "2026-02-01T10:00", "to": "2026-02-01T11:00"}]:
        with subtests.test(query=query):
            page = admin_client.get(URL, {"by": "minute", **query})
            assert "Minutes are available for recent periods of at most 3 hours;" in text_of(page)
            assert page.context["choice"].by == "hour"
            # Groups of the same hour are drawn by hour, without a word.
            assert "Minutes are available" not in text_of(admin_client.get(URL, query))


def test_hour_leads_to_its_minutes_while_they_are_kept(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    frozen_clock.move_to(NOW)
    write(entry(NOW - timedelta(days=5)), entry(NOW - timedelta(hours=3)))
    roll_up(until=clock.now() + timedelta(minutes=1))
    page = admin_client.get(URL, {"by": "hour", "period": "7d"})
    leading = {row[0].text: row[0].url for row in tables_of(page)[0][1:-1]}
    assert leading["02-26 13:00"] == ""
    assert "by=minute" in leading["03-03 10:00"]
    assert "from=2026-03-03T10:00Z&to=2026-03-03T11:00Z" in leading["03-03 10:00"]
    minutes = admin_client.get(URL + leading["03-03 10:00"])
    # Minutes without figures are left out.
    assert len(tables_of(minutes)[0]) == len(["head", "10:00", "total"])
