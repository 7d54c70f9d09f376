"""The strip on the home page: what needs somebody, worst first, each row with one button."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext_lazy

from apps.common.admin.display import short_text, shown_actor, translate
from apps.reports.admin.overview.remarks import MAY_REMARK, REMARKS
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.times import worded
from apps.reports.services import counts_by_minute
from apps.reports.watches.base import ADVICE, CRITICAL, HELD, WARNING
from apps.reports.watches.troubles import Trouble, VisibleTroubles

MAX_ROWS = 7
SPOKEN = {
    CRITICAL: pgettext_lazy("severity", "Critical"),
    WARNING: pgettext_lazy("severity", "Warning"),
    HELD: pgettext_lazy("severity", "Held"),
    ADVICE: pgettext_lazy("severity", "Advice"),
}


class TroubleRow(NamedTuple):
    """A trouble as it is drawn; `button` is a label with its address, `others` are more of them."""

    id: str
    severity: str
    spoken: str | Promise
    icon: str
    text: str
    why: str
    button: tuple[str, str] | None
    others: list[tuple[str, str]]
    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Strip:
    """The rows that are shown, and how many there are."""

    tone: str
    head: str
    notes: list[str]
    rows: list[TroubleRow]
    more: int
    acts: list[tuple[str, str | Promise]]
    all_url: str


def strip(sight: Sight, found: VisibleTroubles) -> Strip:
    """The strip with the troubles that somebody sees, worst first."""
    rows = [_row(each, sight) for each in found.open[:MAX_ROWS]]
    return Strip(
        tone=found.open[0].severity if found.open else "good",
        head=_head(found, sight.sees_all),
        notes=_notes(found),
        rows=rows,
        more=len(found.open) - len(rows),
        acts=list(REMARKS.items()) if sight.permits(MAY_REMARK) else [],
        all_url=reverse("problems") if sight.sees_problems else "",
    )


def _head(found: VisibleTroubles, sees_all: bool) -> str:
    count = len(found.open)
    if count:
        return ngettext("%d thing needs you", "%d things need you", count) % count
    since = counts_by_minute.well_since() if sees_all else None
    if since is None:
        return gettext("All well")
    return gettext("All well since %s") % short_text(since)


def _notes(found: VisibleTroubles) -> list[str]:
    notes = []
    worst = found.open[0].read.since if found.open else None
    if worst is not None:
        notes.append(gettext("worst since %s") % short_text(worst))
    if found.snoozed and found.snoozed_until is not None:
        until = short_text(found.snoozed_until)
        snoozed = ngettext(
            "%(count)d snoozed until %(at)s",
            "%(count)d snoozed, the first until %(at)s",
            len(found.snoozed),
        )
        notes.append(snoozed % {"count": len(found.snoozed), "at": until})
    return notes


def _row(each: Trouble, sight: Sight) -> TroubleRow:
    ways = [(translate(label), url) for label, url in each.ways(sight.permits)]
    why = worded(each.read.why)
    if each.seen_by:
        seen = gettext("seen by %s") % shown_actor(each.seen_by)
        why = f"{why} · {seen}" if why else seen
    return TroubleRow(
        id=f"problem-{each.kind}-{each.key}".replace(":", "-").replace(" ", "-"),
        severity=each.severity,
        spoken=SPOKEN[each.severity],
        icon=each.icon,
        text=worded(each.read.text).rstrip(".。"),
        why=why,
        button=ways[-1] if ways else None,
        others=ways[:-1],
        kind=each.kind,
        name=f"{each.kind} {each.key}",
    )
