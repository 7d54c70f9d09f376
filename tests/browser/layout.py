"""Measures of a page: whether it fits the screen, and which language its texts are in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from playwright.sync_api import Page

# Texts and the attributes that people read, without code, icons and what fields are filled with.
_READ_TEXTS = """
() => {
  const texts = [];
  const skipped = "script, style, noscript, pre, code, kbd, textarea, .material-symbols-outlined";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest(skipped)) texts.push(node.textContent.trim());
  }
  for (const name of ["title", "placeholder", "alt", "aria-label"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      if (!element.closest("[data-simplebar]") || name !== "aria-label") {
        texts.push(element.getAttribute(name).trim());
      }
    }
  }
  return texts.filter(text => text);
}
"""
# Of rows: the height, of each cell that is shown its name, and whether its text is cut.
_READ_ROWS = r"""
() => [...document.querySelectorAll("#result_list .data-row")].slice(0, 8).map(row => [
  row.getBoundingClientRect().height,
  [...row.children].filter(cell => cell.offsetParent).map(cell => [
    cell.className.match(/field-\w+|action-checkbox/)[0], cell.scrollWidth > cell.clientWidth + 1
  ])
])
"""
# The words that the platform itself chooses, which are never too long for their column.
_READ_CUT_WORDS = r"""
() => [...new Set([...document.querySelectorAll("#result_list .field-source_and_event")]
  .filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.innerText.trim()))]
"""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[A-Za-z]{2,}")


def await_drawn(page: Page) -> None:
    """Until all of the page is there and has been drawn as it stands.

    A click that leads to it ends once its first part is there. Scripts that follow its width do so
    while it is drawn; what is measured before is what no one sees.
    """
    page.wait_for_load_state()
    page.evaluate(
        "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
    )


def sideways(page: Page) -> int:
    """By how many pixels the page itself can be moved sideways."""
    await_drawn(page)
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def hidden_columns(page: Page) -> int:
    """By how many pixels the table of a list is wider than its frame; 0 without a list."""
    over: int = page.evaluate(
        "Math.max(0, ...[...document.querySelectorAll('.list-frame')]"
        ".map(frame => frame.scrollWidth - frame.clientWidth))"
    )
    return over


def cut_words(page: Page) -> list[str]:
    """The names of events that a list does not show whole."""
    return page.evaluate(_READ_CUT_WORDS)


def cut_rows(page: Page) -> Iterator[str]:
    """What is wrong with the first rows of a list on a phone: each takes two or three lines, more
    when a title or an error is long, and cuts nothing."""
    rows: list[tuple[float, list[tuple[str, bool]]]] = page.evaluate(_READ_ROWS)
    for _height, cells in rows:
        yield from (f"{cell} is cut" for cell, is_cut in cells if is_cut)
    heights = [height for height, _cells in rows]
    if rows and (max(heights) > 190 or (len(rows) > 1 and min(heights) > 96)):
        yield f"rows are too high: {heights}"


def english_texts(page: Page, known: Iterable[str]) -> set[str]:
    """The texts of a Chinese page in which no Chinese stands, and more than the known texts."""
    texts: list[str] = page.evaluate(_READ_TEXTS)
    known_first = sorted(known, key=len, reverse=True)
    return {text for text in texts if not _CHINESE.search(text) and _is_said(text, known_first)}


def _is_said(text: str, known: list[str]) -> bool:
    if text[0] in "{[":
        # JSON is data.
        return False
    stem = text.removesuffix("...")
    if stem != text and any(part.startswith(stem) for part in known):
        # The charts cut the names of bars.
        return False
    for part in known:
        text = text.replace(part, "")
    return bool(_WORD.search(text))
