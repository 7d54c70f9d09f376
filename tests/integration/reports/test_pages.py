"""The report pages: every figure is right, leads to its rows, and bears any address."""

from __future__ import annotations

import codecs
import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import Stock
from apps.reports.admin import pages
from apps.reports.services.summary import Figures, Summary, summarise
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.reports.day import DAY, NOW, START, URL, roll_up, table
from tests.integration.reports.history import entry, utc, write
from tests.integration.reports.output import REPORTS
from tests.pages import Cell, nothing_drawn, tables_of, text_of

pytestmark = pytest.mark.django_db

COUNTS = {
    "job": ("total", "", "succeeded", "failed", "retried", "timed_out", "expired", "released",
            "cancelled", "stage_done"),
    "dispatch": ("total", "", "succeeded", "failed", "retried", "expired", "released",
                 "cancelled"),
}  # fmt: skip


def shown(figures: Figures, source: str) -> list[str]:
    """The counts of a row as the page writes them, the success rate among them."""
    rates = {None: "–", 0: "0 %", 1: "100 %"}
    rate = figures.success_rate
    return [
        str(getattr(figures, name)) if name else rates.get(rate, f"{100 * (rate or 0):.1f} %")
        for name in COUNTS[source]
    ]


# --- the figures ----------------------------------------------------------------------------------
def test_figures_of_the_page_are_those_of_the_summary(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    """S1.19, S1.1: success, duration and counts on web pages."""
    for source, by in REPORTS:
        with subtests.test(source=source, by=by):
            found: Summary = summarise(source, by, DAY)
            rows = table(admin_client, source=source, by=by, columns="all")
            assert found.total.total > 30
            busy = [row for row in found.rows if row.total or row.retried]
            assert len(rows) == len(busy) + 1
            for row, figures in zip(rows, (*busy, found.total), strict=True):
                counts = [cell.text for cell in row[1 : 1 + len(COUNTS[source])]]
                assert counts == shown(figures, source)
                assert len(row) == 1 + len(counts) + 6


def test_every_count_leads_to_a_list_of_that_many_entries(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    for source, by in [
        ("job", "type"),
        ("job", "host"),
        ("job", "worker"),
        ("job", "day"),
        ("dispatch", "task"),
        ("dispatch", "executor"),
    ]:
        with subtests.test(source=source, by=by):
            followed = 0
            for row in table(admin_client, source=source, by=by, columns="all"):
                counts = zip(COUNTS[source], row[1:], strict=False)
                for cell in (cell for name, cell in counts if name):
                    assert bool(cell.url) is (cell.text != "0")
                    if cell.url:
                        rows = listed(admin_client, cell.url)
                        assert len(rows) == int(cell.text.replace(",", ""))
                        followed += 1
            assert followed > 10


def listed(client: Client, url: str) -> list[Any]:
    """All rows of a list, page by page."""
    found: list[Any] = []
    while True:
        with nothing_drawn():
            page: Any = client.get(url)
        changelist = page.context_data["cl"]
        found += changelist.result_list
        if changelist.older is None:
            return found
        url = url.partition("?")[0] + changelist.older_url


@pytest.mark.parametrize("ms", [58, 64, 1003, 86_400_123])
def test_percentile_leads_to_the_very_entry_that_it_is_of(
    admin_client: Client, now: FrozenClock, ms: int
) -> None:
    write(entry(NOW - timedelta(minutes=5), wait_ms=ms, run_ms=ms))
    roll_up()
    row, _total = table(admin_client, by="type", columns="all")
    for cell in row[-6:]:
        assert [found.run_ms for found in listed(admin_client, cell.url)] == [ms]


def test_totals_are_compared_with_the_same_part_of_the_period_before(
    admin_client: Client, now: FrozenClock
) -> None:
    failed = ("failed", "running", "failed")
    before = [entry(START - timedelta(hours=1, seconds=n)) for n in range(4)]
    # Of the period before, this lies beyond where the present one has come.
    late = entry(START - timedelta(minutes=2))
    present = [entry(NOW - timedelta(minutes=9, seconds=n)) for n in range(4)]
    write(*before, late, *present, entry(NOW - timedelta(minutes=5), kind=failed))
    roll_up()
    text = text_of(admin_client.get(URL))
    assert "Jobs ended 5 +25 % before: 4 Tries ended 5 +25 % before: 4" in text
    assert "Success rate 80.0 % -20.0 points before: 100 %" in text
    assert "Failed 1 before: 0" in text
    assert (
        "Added up to 2026-03-03 13:52, compared with 2026-03-01 14:00 – 2026-03-02 13:52." in text
    )


def test_one_group_is_shown_through_time(admin_client: Client, history: None) -> None:
    [row, *_] = table(admin_client, source="job", by="type")
    rows = table_at(admin_client, row[0].url)
    found = summarise("job", "hour", DAY, only=("type", row[0].text.split()[0]))
    assert [cell[1].text for cell in rows] == [
        str(each.total) for each in (*found.rows, found.total) if each.total
    ]
    assert len(listed(admin_client, rows[-1][1].url)) == found.total.total


def table_at(client: Client, url: str) -> list[list[Cell]]:
    return tables_of(client.get(URL + url))[0][1:]


def test_report_of_very_many_hours_shows_the_first_and_exports_all(
    admin_client: Client, history: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_ROWS", 3)
    page = admin_client.get(URL, {"by": "hour"})
    assert len(tables_of(page)[0][1:]) == 3 + 1
    busy = sum(1 for row in summarise("job", "hour", DAY).rows if row.total)
    assert f"and {busy - 3} more · all of them as CSV" in text_of(page)
    answer = admin_client.get(reverse("report_csv"), {"by": "hour"})
    assert len(answer.content.decode().splitlines()) == 1 + 24 + 1


def test_report_of_very_many_groups_shows_the_first_and_exports_all(
    admin_client: Client, history: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = summarise("job", "type", DAY)
    monkeypatch.setattr("apps.reports.services.sheet.MAX_GROUPS", 1)
    page = admin_client.get(URL, {"sort": "-failed"})
    [row, total] = tables_of(page)[0][1:]
    most = max(every.rows, key=lambda each: each.failed)
    assert row[0].text.split()[0] == most.group
    assert total[1].text == str(every.total.total)
    more = f"and {len(every.rows) - 1} more · all of them as CSV"
    assert more in text_of(page)
    sorted_by_time = "Only the groups with the most ends are sorted by time."
    assert sorted_by_time not in text_of(page)
    slow = text_of(admin_client.get(URL, {"sort": "-run_p95"}))
    assert more in slow
    assert sorted_by_time in slow
    answer = admin_client.get(reverse("report_csv"), {"sort": "-run_p95"})
    assert len(answer.content.decode().splitlines()) == 1 + len(every.rows) + 1


def test_table_is_sorted_as_asked_for(admin_client: Client, history: None) -> None:
    def names(sort: str) -> list[str]:
        return [row[0].text.split()[0] for row in table(admin_client, sort=sort)[:-1]]

    rows = summarise("job", "type", DAY).rows
    by_failures = sorted(rows, key=lambda row: row.failed)
    assert names("failed") == [row.group for row in by_failures]
    assert names("-failed") == [row.group for row in by_failures[::-1]]
    assert names("") == [row.group for row in rows]


def test_hour_that_comes_twice_shows_its_offset(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    frozen_clock.move_to(utc("2026-10-25T12:00:00"))
    write(entry(utc("2026-10-25T00:30:00")), *(entry(utc("2026-10-25T01:30:00")) for _ in "12"))
    roll_up()
    rows = table(
        admin_client, by="hour", zone="Europe/Berlin",
        **{"from": "2026-10-25T01:00", "to": "2026-10-25T04:00"},
    )  # fmt: skip
    assert [(row[0].text, row[1].text) for row in rows] == [
        ("10-25 02:00 (+0200)", "1"),
        ("10-25 02:00 (+0100)", "2"),
        ("All", "3"),
    ]


# --- what is left out -------------------------------------------------------------------------
def test_columns_and_times_of_zeros_are_left_out_until_all_are_asked_for(
    admin_client: Client, now: FrozenClock
) -> None:
    failed = ("failed", "running", "failed")
    write(entry(NOW - timedelta(hours=3)), entry(NOW - timedelta(hours=2), kind=failed))
    roll_up()
    page = admin_client.get(URL, {"by": "type"})
    by_type, by_hour = tables_of(page)
    shown_heads = [cell.text for cell in by_type[0][1:]]
    assert shown_heads == [
        *("Tries ended", "Success rate", "Succeeded", "Failed"),
        *("Wait p50", "Wait p95", "Run p50", "Run p95"),
    ]
    assert len(by_hour) == 1 + 2
    assert "Nothing ended in 22 other hours." in text_of(page)
    every = tables_of(admin_client.get(URL, {"by": "type", "columns": "all"}))[0]
    assert len(every[0]) == 1 + len(COUNTS["job"]) + 6
    assert every[1][-1].text == by_type[1][-1].text


def test_jobs_and_their_attempts_are_told_apart(admin_client: Client, now: FrozenClock) -> None:
    again = ("failed", "running", "scheduled")
    write(*(entry(NOW - timedelta(minutes=9, seconds=n), kind=again) for n in range(3)))
    write(entry(NOW - timedelta(minutes=8)))
    roll_up()
    text = text_of(admin_client.get(URL))
    assert "Jobs ended 1 before: 0 Tries ended 4 before: 0" in text


def test_tasks_are_named_by_their_titles(admin_client: Client, now: FrozenClock) -> None:
    task = factories.once_task(factories.user("uid_ann"), "Count the shelf")
    ended = ("succeeded", "open", "succeeded")
    label = f"once:{task.pk}"
    write(entry(NOW - timedelta(hours=1), "dispatch", kind=ended, type_or_task=label))
    roll_up()
    query = {"source": "dispatch", "by": "task"}
    page = admin_client.get(URL, query)
    assert tables_of(page)[0][1][0].text == f"Count the shelf list {label}"
    assert '"names": ["Count the shelf"]' in page.content.decode()
    hours = text_of(admin_client.get(URL, {**query, "by": "hour", "only": f"task:{label}"}))
    assert f"Count the shelf {label}" in hours
    lines = admin_client.get(reverse("report_csv"), query).content.decode("utf-8-sig")
    [row, _total] = csv.DictReader(io.StringIO(lines))
    assert (row["task"], row["title"]) == (label, "Count the shelf")


# --- quotas ---------------------------------------------------------------------------------------
def test_quotas_of_the_busiest_tasks_are_shown(
    admin_client: Client, now: FrozenClock, django_assert_max_num_queries: Any
) -> None:
    group = factories.group(members=["uid_a", "uid_b"])
    once = factories.once_task(group, "Check <b>all</b>", mode="multi", dispatch_times=4)
    unlimited = factories.once_task(group, "For everybody", mode="multi", dispatch_times=None)
    rotation = factories.rotation(group, "Each hour", mode="multi", dispatch_times=2)
    for task, handed in ((once, {0: 3}), (unlimited, {0: 7})):
        stock(task, handed)
    hour = int(START.timestamp())
    stock(rotation, {hour: 2, hour + 3600: 1, hour - 3600: 2})
    labels = [f"once:{once.pk}", f"once:{unlimited.pk}", f"rotate:{rotation.pk}"]
    ended = ("succeeded", "open", "succeeded")
    write(*(entry(NOW - timedelta(hours=1), "dispatch", kind=ended, type_or_task=label)
            for label in labels))  # fmt: skip
    roll_up()
    with django_assert_max_num_queries(30):
        page = admin_client.get(URL, {"source": "dispatch", "by": "task"})
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in tables_of(page)[1][1:]}
    assert rows == {
        f"Check <b>all</b> once:{once.pk}": ["3 / 4", "1", "0"],
        f"For everybody once:{unlimited.pk}": ["7 / 2", "1", "1"],
        f"Each hour rotate:{rotation.pk}": ["3 / 4", "2", "1"],
    }


def stock(task: Any, handed: dict[int, int]) -> None:
    for occurrence, count in handed.items():
        Stock.objects.create(source=task.source, task=task.pk, occurrence=occurrence, handed=count)


def test_quota_of_very_many_occurrences_is_shown_of_the_newest(
    admin_client: Client, now: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.reports.admin.quota.MAX_OCCURRENCES", 2)
    rotation = factories.rotation(factories.group(), mode="multi", dispatch_times=2)
    hour = int(START.timestamp())
    stock(rotation, {hour: 2, hour + 60: 1, hour + 120: 1})
    ended = ("succeeded", "open", "succeeded")
    label = f"rotate:{rotation.pk}"
    write(entry(NOW - timedelta(hours=1), "dispatch", kind=ended, type_or_task=label))
    roll_up()
    page = admin_client.get(URL, {"source": "dispatch", "by": "task"})
    assert [cell.text for cell in tables_of(page)[1][1][1:]] == ["2 / 4", "2+", "0"]


# --- CSV ------------------------------------------------------------------------------------------
def test_csv_has_all_rows_and_the_total(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    for query in [{"by": "type"}, {"by": "hour"}, {"source": "dispatch", "by": "executor"}]:
        with subtests.test(query=query):
            found = summarise(query.get("source", "job"), query["by"], DAY)
            answer = admin_client.get(reverse("report_csv"), query)
            assert answer["Content-Type"] == "text/csv; charset=utf-8"
            # Excel takes it for UTF-8 by its mark.
            assert answer.content.startswith(codecs.BOM_UTF8)
            rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
            groups = [*(row.group for row in found.rows), "total"]
            assert [row[query["by"]] for row in rows] == groups
            for row, figures in zip(rows, (*found.rows, found.total), strict=True):
                assert row["total"] == str(figures.total)
                assert row["retried"] == str(figures.retried)
                p95, rate = figures.run.p95, figures.success_rate
                assert row["run_p95_ms"] == ("" if p95 is None else str(p95))
                assert row["success_rate"] == ("" if rate is None else f"{rate:.4f}")


def test_csv_holds_no_formula(admin_client: Client, now: FrozenClock) -> None:
    names = ("+1+1", "-2", "@sum")
    write(*(entry(NOW - timedelta(hours=1), type_or_task=name) for name in names))
    roll_up()
    answer = admin_client.get(reverse("report_csv")).content.decode()
    assert [f'"\'{name}","1"' in answer for name in names] == [True] * 3
