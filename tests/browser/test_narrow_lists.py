"""Lists on a screen that is too narrow for their tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page

from tests import factories
from tests.browser.layout import await_drawn
from tests.frozen import FrozenClock
from tests.job_scenes import fill_yard
from tests.scenes import play_morning

pytestmark = pytest.mark.django_db(transaction=True)


def test_cells_show_their_headings_as_these_are_written(
    page_as: Callable[[str | None], Page],
) -> None:
    factories.once_task(factories.user("uid_ann"))
    page = page_as("viewer")
    page.goto(reverse("admin:journal_journalentry_changelist"))
    headings = page.locator("#result_list thead th").all_inner_texts()
    page.set_viewport_size({"width": 800, "height": 900})
    labels = page.locator("#result_list tbody tr").first.evaluate(
        """row => [...row.querySelectorAll("[data-label]")].map(cell => {
            const { content, textTransform } = getComputedStyle(cell, "::before");
            return [content, textTransform];
        })"""
    )
    assert "Type or task" in headings
    assert labels == [[f'"{heading.strip()}"', "none"] for heading in headings]


LISTS = (
    *("dispatch_oncetask", "dispatch_rotatetask", "dispatch_dispatch", "dispatch_executor"),
    *("dispatch_template", "jobs_job", "jobs_jobtype", "jobs_worker", "journal_journalentry"),
    *("schedules_schedule", "access_apiclient"),
)
# Each cell that is shown: its top, and whether its text is cut.
READ_CELLS = """row => [...row.children].filter(cell => cell.offsetParent).map(cell =>
  [cell.className.match(/field-(\\w+)|action-(checkbox)/)[0], cell.getBoundingClientRect().top,
   cell.scrollWidth > cell.clientWidth + 1])"""


def test_rows_on_a_phone_are_two_lines_with_nothing_cut(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    play_morning(frozen_clock)
    fill_yard(frozen_clock)
    factories.schedule("report", title="Report of all shops of the town")
    page = page_as("superuser")
    page.set_viewport_size({"width": 390, "height": 844})
    for name in LISTS:
        page.goto(reverse(f"admin:{name}_changelist"))
        await_drawn(page)
        rows = page.locator("#result_list .data-row")
        assert rows.count(), name
        heights = []
        for row in rows.all()[:8]:
            cells = row.evaluate(READ_CELLS)
            assert len(cells) >= 3, name
            assert not [cell for cell, _top, is_cut in cells if is_cut], name
            heights.append(row.bounding_box()["height"])  # type: ignore[index]
        # A long title or error may take a line of its own.
        assert min(heights) < 80, (name, heights)
        assert max(heights) < 190, (name, heights)
