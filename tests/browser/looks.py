"""What is wrong with a page as it stands, at both widths and in one of the themes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Page, ViewportSize

from tests.browser.barriers import barriers
from tests.browser.layout import cut_rows, cut_words, hidden_columns, sideways

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDE, NARROW = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
# Once for each page and theme: every colour is met so, and every width.
BARRIERS_AT = {"light": WIDE, "dark": NARROW}


def faults(page: Page, theme: Theme, *, with_barriers: bool = True) -> Iterator[str]:
    """Begins with the width that the page has, and leaves it at the other. To look for barriers
    takes as long as all else."""
    for size in sorted((WIDE, NARROW), key=lambda size: size != page.viewport_size):
        page.set_viewport_size(size)
        if over := sideways(page):
            yield f"{over} px wider than {size['width']}"
        if size is NARROW:
            yield from cut_rows(page)
        else:
            if over := hidden_columns(page):
                yield f"the list is {over} px wider than its frame"
            yield from (f"{words!r} is cut" for words in cut_words(page))
        if with_barriers and size is BARRIERS_AT[theme]:
            yield from barriers(page)
