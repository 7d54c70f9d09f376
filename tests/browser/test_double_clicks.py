"""Who clicks twice has asked once, also where the server cannot tell."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from apps.schedules.models import ScheduleRun
from tests import factories
from tests.jobs import job_type
from tests.pages import change_url


def test_double_click_asks_once_and_the_next_page_asks_again(
    page_as: Callable[..., Page],
) -> None:
    job_type("mail")
    made = factories.schedule()
    page = page_as("superuser")
    page.goto(change_url(made))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    for count in (1, 2):
        page.get_by_role("button", name="Run now").dblclick()
        expect(page.get_by_text("1 job made.")).to_be_visible()
        assert asked.count("POST") == count
        assert ScheduleRun.objects.count() == count
        page.goto(change_url(made))
        expect(page.get_by_text("1 job made.")).to_have_count(0)
