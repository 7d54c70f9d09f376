"""An operator and the reports: charts, zoom, periods, zones, themes, from a figure to its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.common import clock
from apps.common.admin.display import duration_of
from apps.reports.services import rollup
from tests import factories
from tests.browser.layout import await_drawn
from tests.frozen import FrozenClock
from tests.integration.reports.history import drawn, entry, utc, write

NOW = utc("2026-03-03T13:52:10")
# Of cells: what they say, the width that it needs, that it has, and that of the cell.
PLACES = """cells => cells.map(cell =>
  [cell.innerText, cell.scrollWidth, cell.clientWidth, cell.offsetWidth])"""
CHARTS = ("report-ends", "report-groups", "report-wait", "report-run")


@pytest.fixture
def history(transactional_db: None, frozen_clock: FrozenClock) -> None:
    frozen_clock.move_to(NOW)
    write(*drawn(600, NOW - timedelta(hours=44), NOW - timedelta(minutes=3)))
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))


def charted(page: Page, chart: str, part: str) -> Any:
    """The data of a chart."""
    expect(page.locator(f"#{chart} svg")).to_be_visible()
    place = f"document.getElementById('{chart}')"
    return page.evaluate(f"echarts.getInstanceByDom({place}).getOption().{part}")


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


TIMES = (0, 999, 1500, 59_940, 59_960, 139_000, 3_599_600, 7_265_000, 172_799_000, 183_600_000)


def test_operator_reads_a_report(page_as: Callable[[str | None], Page], history: None) -> None:
    page = page_as("operator")
    page.goto("/admin/")
    page.locator("#nav-sidebar").get_by_role("link", name="Reports").click()
    for chart in CHARTS:
        expect(page.locator(f"#{chart} svg")).to_be_visible()
    drawn_ends = sum(sum(series["data"]) for series in charted(page, "report-ends", "series")
                     if series["type"] == "bar")  # fmt: skip
    ended = page.locator(".report-tile", has_text="Tries ended").locator("strong").inner_text()
    assert drawn_ends == int(ended)
    words = [
        charted(page, "report-run", f"yAxis[0].axisLabel.formatter({ms})")
        for ms in ("null", *TIMES)
    ]
    # One way of writing times, whoever draws them.
    assert words == ["–", *map(duration_of, TIMES)]

    page.get_by_role("link", name="7 days").click()
    page.get_by_role("link", name="By hour").click()
    assert query(page) == {"source": "job", "by": "hour", "period": "7d", "zone": "UTC"}
    assert len(charted(page, "report-ends", "xAxis[0].data")) == 168
    page.get_by_label("Time zone").fill("Asia/Shanghai")
    page.get_by_role("button", name="Show").click()
    assert query(page) == {"source": "job", "by": "hour", "period": "7d", "zone": "Asia/Shanghai"}
    assert charted(page, "report-ends", "xAxis[0].data")[0] == "02-24 22:00"
    page.get_by_label("From").fill("2026-03-02T22:00")
    page.get_by_label("To", exact=True).fill("2026-03-03T21:00")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".report-span")).to_contain_text("2026-03-02 22:00 – 2026-03-03 21:00")
    assert len(charted(page, "report-ends", "xAxis[0].data")) == 23


def test_zoom_of_one_chart_is_that_of_all(
    page_as: Callable[[str | None], Page], history: None
) -> None:
    page = page_as("viewer")
    page.goto(reverse("report") + "?by=hour&period=7d")
    assert charted(page, "report-ends", "dataZoom[0].end") == 100
    page.locator("#report-ends").scroll_into_view_if_needed()
    page.locator("#report-ends").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_function(
        "['report-ends', 'report-run'].every(id => "
        "echarts.getInstanceByDom(document.getElementById(id)).getOption().dataZoom[0].end < 99)"
    )


def test_bar_and_figure_lead_to_the_entries_they_count(
    page_as: Callable[[str | None], Page], history: None
) -> None:
    page = page_as("operator")
    page.goto(reverse("report"))
    figure = page.locator(".report-table").first.locator("tbody tr").first.locator("td a").first
    count = int(figure.inner_text())
    figure.click()
    expect(page.locator("#result_list tbody tr")).to_have_count(min(count, 50))
    page.go_back()
    bars = page.locator("#report-groups svg path[fill='#22a35a']")
    expect(bars.first).to_be_visible()
    bars.first.click()
    page.wait_for_url(re.compile("journalentry"))
    assert query(page)["counted"] == "succeeded"


def test_charts_follow_the_theme(page_as: Callable[[str | None], Page], history: None) -> None:
    page = page_as("viewer")
    page.emulate_media(color_scheme="light")
    page.goto(reverse("report"))
    assert charted(page, "report-ends", "legend[0].textStyle.color") == "#4b5563"
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert charted(page, "report-ends", "legend[0].textStyle.color") == "#9ca3af"


def test_minutes_alone_are_drawn_as_points(
    page_as: Callable[[str | None], Page], transactional_db: None, frozen_clock: FrozenClock
) -> None:
    """No line leads to them, and the axis names few of them."""
    frozen_clock.move_to(NOW)
    alone = (3, 5, 7, 9)
    write(*(entry(NOW - timedelta(minutes=ago)) for ago in alone))
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    page = page_as("viewer")
    page.goto(reverse("report") + "?period=1h")
    # Circles of the last percentile: those of the others lie below them. One is in the legend.
    circles = page.locator("#report-wait svg path[stroke='#d4479c'][fill='#fff']")
    expect(circles).to_have_count(len(alone) + 1)


def test_long_names_and_titles_leave_the_figures_to_be_seen(
    page_as: Callable[[str | None], Page], history: None
) -> None:
    task = factories.once_task(factories.user("uid_ann"), title="Count " * 30)
    name = "type." + "x" * 95
    ended = ("succeeded", "open", "succeeded")
    write(
        entry(NOW - timedelta(minutes=5), type_or_task=name),
        entry(NOW - timedelta(minutes=5), "dispatch", kind=ended, type_or_task=f"once:{task.pk}"),
    )
    list(rollup.rebuild(NOW - timedelta(hours=1), NOW))
    page = page_as("viewer")
    for address in ("?source=job&by=type&period=1h", "?source=dispatch&by=task&period=1h"):
        page.goto(reverse("report") + address)
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 900})
            await_drawn(page)
            cells = page.locator(":is(.report-table, .report-quotas) tbody th:visible")
            for text, needed, has, whole in cells.evaluate_all(PLACES):
                # Both are rounded.
                assert needed <= has + 1, text
                assert whole <= width / 2, text
