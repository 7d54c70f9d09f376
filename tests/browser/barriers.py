"""What shuts people out of a page: axe-core checks the page as the browser shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.layout import await_drawn

# Run by the browser itself, not as a script of the page, so the page's policy stays as it is.
_AXE = (Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js").read_text()
# Colours are measured as they are in the end, not on their way.
_RUN = """
async () => {
  for (const animation of document.getAnimations()) {
    try { animation.finish(); } catch { animation.cancel(); }
  }
  // At its end nothing of the page lies under the bar that sticks to the bottom of the window.
  const place = scrollY;
  scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
  // The one rule of WCAG 2.2 AA that axe leaves out unless it is asked for.
  const rules = { "target-size": { enabled: true } };
  const options = { resultTypes: ["violations"], preload: false, iframes: false, rules };
  const { violations } = await axe.run(document, options);
  scrollTo({ top: place, behavior: "instant" });
  return violations;
}
"""


def barriers(page: Page) -> list[str]:
    """Each barrier of the page as it stands: its rule, where it is, and why."""
    await_drawn(page)
    page.evaluate(_AXE)
    found: list[dict[str, Any]] = page.evaluate(_RUN)
    return [
        f"{rule['id']} at {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
