"""The findings of a watch, as pages show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apps.common.admin.display import shown_text, translate
from apps.reports.watches.base import WatchResult

MAX_TEXT = 600


class Shown(NamedTuple):
    """A sentence with a remark, and labels with the addresses where to look or to mend it."""

    text: str
    why: str
    ways: list[tuple[str, str]]


def shown_findings(found: WatchResult, may: Callable[[str], bool]) -> list[Shown]:
    """The findings for somebody with these permissions."""
    return [
        Shown(
            shown_text(translate(each.text), limit=MAX_TEXT),
            shown_text(translate(each.why), limit=MAX_TEXT),
            [(translate(label), url) for label, url in found.watch.ways(each, may)],
        )
        for each in found.findings
    ]
