"""Lists on a screen that is too narrow for their tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page

from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


def test_cells_show_their_headings_as_these_are_written(
    page_as: Callable[[str | None], Page],
) -> None:
    factories.once_task(factories.user("uid_ann"))
    page = page_as("viewer")
    page.goto(reverse("admin:journal_journalentry_changelist"))
    headings = page.locator("#result_list thead th").all_inner_texts()
    page.set_viewport_size({"width": 400, "height": 900})
    labels = page.locator("#result_list tbody tr").first.evaluate(
        """row => [...row.querySelectorAll("[data-label]")].map(cell => {
            const { content, textTransform } = getComputedStyle(cell, "::before");
            return [content, textTransform];
        })"""
    )
    assert "Type or task" in headings
    assert labels == [[f'"{heading.strip()}"', "none"] for heading in headings]
