"""The strip on the home page: what needs somebody, worst first, each row with one button."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import actor_of
from apps.common.admin.display import shown_actor, shown_text, translate
from apps.common.errors import PlatformError
from apps.common.messages import Message
from apps.journal.admin import words
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.times import short_time
from apps.reports.services import problems, standing_minutes
from apps.reports.watches import troubles as all_troubles
from apps.reports.watches.base import ADVICE, CRITICAL, HELD, WARNING
from apps.reports.watches.troubles import Told, Trouble

SAID_URL = "overview_said"
MAX_ROWS = 7
_MAX_TEXT = 600
# Who may speak for everybody.
MAY_SAY = "alerts.snooze_alert"
SEEN = "seen"
_SNOOZES = {"hour": timedelta(hours=1), "shift": timedelta(hours=8)}
_ACTS: Mapping[str, str | Promise] = {
    SEEN: _("Seen by me"),
    "hour": _("Snooze 1 h"),
    "shift": _("Snooze 8 h"),
}
_SPOKEN = {
    CRITICAL: pgettext_lazy("severity", "Critical"),
    WARNING: pgettext_lazy("severity", "Warning"),
    HELD: pgettext_lazy("severity", "Held"),
    ADVICE: pgettext_lazy("severity", "Advice"),
}


class Row(NamedTuple):
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
    key: str


@dataclass(frozen=True, kw_only=True)
class Strip:
    """The rows that are shown, and how many there are."""

    tone: str
    head: str
    notes: list[str]
    rows: list[Row]
    more: int
    acts: list[tuple[str, str | Promise]]
    all_url: str


def strip(sight: Sight, found: Told) -> Strip:
    """What is found for somebody, as rows."""
    rows = [_row(each, sight) for each in found.open[:MAX_ROWS]]
    return Strip(
        tone=found.open[0].severity if found.open else "good",
        head=_head(found, sight.sees_all),
        notes=_notes(found),
        rows=rows,
        more=len(found.open) - len(rows),
        acts=list(_ACTS.items()) if sight.permits(MAY_SAY) else [],
        all_url=_all_url(sight),
    )


def _head(found: Told, sees_all: bool) -> str:
    count = len(found.open)
    if count:
        return ngettext("%d thing needs you", "%d things need you", count) % count
    since = standing_minutes.well_since() if sees_all else None
    if since is None:
        return gettext("All well")
    return gettext("All well since %s") % short_time(since)


def _notes(found: Told) -> list[str]:
    notes = []
    worst = found.open[0].read.since if found.open else None
    if worst is not None:
        notes.append(gettext("worst since %s") % short_time(worst))
    if found.snoozed and found.snoozed_until is not None:
        until = short_time(found.snoozed_until)
        snoozed = ngettext(
            "%(count)d snoozed until %(at)s",
            "%(count)d snoozed, the first until %(at)s",
            found.snoozed,
        )
        notes.append(snoozed % {"count": found.snoozed, "at": until})
    return notes


def _all_url(sight: Sight) -> str:
    """The page that has all of them."""
    pages = (("alerts.view_alert", "admin:alerts_alert_changelist"),)
    return next((reverse(name) for needed, name in pages if sight.permits(needed)), "")


def _row(each: Trouble, sight: Sight) -> Row:
    ways = [(translate(label), url) for label, url in each.ways(sight.permits)]
    why = _said(each.read.why)
    if each.seen_by:
        seen = gettext("seen by %s") % shown_actor(each.seen_by)
        why = f"{why} · {seen}" if why else seen
    return Row(
        id=f"problem-{each.kind}-{each.key}".replace(":", "-").replace(" ", "-"),
        severity=each.severity,
        spoken=_SPOKEN[each.severity],
        icon=each.icon,
        text=_said(each.read.text).rstrip(".。"),
        why=why,
        button=ways[-1] if ways else None,
        others=ways[:-1],
        kind=each.kind,
        key=each.key,
    )


def _said(text: str) -> str:
    if isinstance(text, Message):
        text = text.translated(gettext, short_time)
    return shown_text(text, limit=_MAX_TEXT)


# --- what people say about a row ------------------------------------------------------------------
def said(request: HttpRequest) -> HttpResponse:
    """Somebody has seen a trouble, or puts it off (POST)."""
    sight = Sight(request.user)
    if not sight.permits(MAY_SAY):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    kind, key, act = (request.POST.get(name, "") for name in ("kind", "key", "act"))
    each = next((t for t in all_troubles.troubles() if (t.kind, t.key) == (kind, key)), None)
    if act not in _ACTS:
        raise Http404(f"no act {act!r}")
    if each is None or not sight.sees(each):
        messages.info(request, gettext("It is over already."))
    else:
        try:
            _say(each, act, actor_of(request))
        except PlatformError as error:
            messages.error(request, translate(error.detail))
    all_troubles.found.forget()
    return HttpResponseRedirect(reverse("admin:index"))


def _say(each: Trouble, act: str, actor: str) -> None:
    if act == SEEN:
        problems.seen(each.kind, each.key, actor=actor)
        return
    snooze: Callable[..., object] | None = each.watch.snooze
    if snooze is not None:
        snooze(each.read.name, _SNOOZES[act], actor)
    else:
        problems.snooze(each.kind, each.key, time=_SNOOZES[act], actor=actor)


words.register(
    events={
        "problem_seen": words.Event(_("Problem seen"), "visibility", "info"),
        "problem_snoozed": words.Event(_("Problem snoozed"), "snooze", "info"),
    },
    names={"kind": _("kind"), "key": _("key"), "until": _("until")},
)
