"""Measures of a page: whether it fits the screen, and which language its texts are in."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
