"""The troubles that need somebody, worst first: the findings of the watches with a severity, with
the remarks of people about them.

The strip on the home page and the menu read this one list, each limited to what the person may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from math import inf
from typing import NamedTuple

from django.utils.translation import get_language

from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.ttl_cache import TTLCache
from apps.reports.models import Problem
from apps.reports.services import problems
from apps.reports.services.fact_sheet import FactSheet, current_sheet
from apps.reports.watches import WATCHES
from apps.reports.watches.base import SEVERITIES, WARNING, Reading, Watch, look
from apps.reports.watches.subjects import CHECK

# What stands in place of the findings of a watch that stumbles.
_BROKEN = Watch(
    key="broken_check", title=_("All checks can look"), read=lambda _sheet: (), severity=WARNING
)
# How long a trouble without a known beginning stays seen.
_SEEN_FOR = timedelta(hours=24)


class Trouble(NamedTuple):
    """One row: what is wrong and why, and whether somebody has seen or snoozed it."""

    watch: Watch
    read: Reading
    severity: str
    icon: str
    remark: Problem | None = None
    snoozed_until: datetime | None = None

    @property
    def kind(self) -> str:
        return self.watch.key

    @property
    def key(self) -> str:
        return self.read.subject

    @property
    def seen_by(self) -> str:
        """The person who has said that they have seen it; "" for nobody."""
        is_seen = self.remark is not None and self.remark.state == Problem.State.SEEN
        return self.remark.by if self.remark is not None and is_seen else ""

    def ways(self, may: Callable[[str], bool]) -> list[tuple[Message, str]]:
        """Labels with addresses; the last one mends it or helps most."""
        return self.watch.ways(self.read, may)


# Some of the watches read for a while.
found: TTLCache[list[Trouble]] = TTLCache(5.0)


def troubles() -> list[Trouble]:
    """All troubles, snoozed ones included, whoever may see them; some seconds old at most. Their
    figures are written in the language of the page."""
    return found.get(get_language(), lambda: read(current_sheet()))


def read(sheet: FactSheet) -> list[Trouble]:
    """The troubles of the moment, worst first, then by the newest beginning; also those in whose
    place another trouble stands."""
    seen = [pair for watch in WATCHES for pair in _readings(watch, sheet)]
    remarks = problems.by_name((watch.key, each.subject) for watch, each in seen)
    rows = [
        _trouble(watch, each, remarks.get((watch.key, each.subject)), sheet.now)
        for watch, each in seen
    ]
    return sorted(rows, key=_rank)


def _readings(watch: Watch, sheet: FactSheet) -> Iterator[tuple[Watch, Reading]]:
    if not watch.severity:
        return
    found = look(watch, sheet, has_snoozed=True)
    yield from ((watch, each) for each in found.findings)
    if found.is_broken and found.unknown is not None:
        yield _BROKEN, Reading(CHECK, watch.key, text=found.unknown)


def _trouble(watch: Watch, read: Reading, remark: Problem | None, now: datetime) -> Trouble:
    until = read.snoozed_until
    if remark is not None and not _holds(remark, read, now):
        remark = None
    if remark is not None and remark.state == Problem.State.SNOOZED:
        until = remark.until
    severity, icon = read.severity or watch.severity, read.icon or watch.icon
    return Trouble(watch, read, severity, icon, remark, until)


def _holds(remark: Problem, read: Reading, now: datetime) -> bool:
    """Whether the remark is still about the same trouble."""
    if remark.state == Problem.State.SNOOZED:
        return remark.until is not None and now < remark.until
    began = now - _SEEN_FOR if read.since is None else read.since
    return remark.changed_at >= began


def _rank(each: Trouble) -> tuple[int, float]:
    since = each.read.since
    # Troubles to come are before present ones, which have a beginning.
    return SEVERITIES.index(each.severity), -inf if since is None else -since.timestamp()


class VisibleTroubles(NamedTuple):
    """The troubles that a person sees: the open ones, and the snoozed ones."""

    open: list[Trouble]
    snoozed: list[Trouble]

    @property
    def snoozed_until(self) -> datetime | None:
        """When the first of the snoozed troubles is open again."""
        ends = [each.snoozed_until for each in self.snoozed if each.snoozed_until is not None]
        return min(ends, default=None)

    @property
    def critical(self) -> int:
        return sum(each.severity == SEVERITIES[0] for each in self.open)


# A trouble as somebody sees it; None if they do not.
View = Callable[[Trouble], Trouble | None]


def visible_troubles(view: View) -> VisibleTroubles:
    """The troubles that somebody sees, without those in whose place they see another one."""
    seen = [each for each in map(view, troubles()) if each is not None]
    covered = {pair for each in seen for pair in each.read.instead}
    mine = [each for each in seen if not covered & {(each.kind, each.key), (each.kind, "")}]
    return VisibleTroubles(
        [each for each in mine if each.snoozed_until is None],
        [each for each in mine if each.snoozed_until is not None],
    )


def open_troubles() -> int:
    """The number of open troubles for somebody who sees all."""
    return len(visible_troubles(lambda each: each).open)
