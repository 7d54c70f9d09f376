"""The remarks of people about problems, from the home page and the page of problems (POST)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

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
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import actor_of, local_url
from apps.common.admin.display import translate
from apps.common.errors import PlatformError
from apps.common.messages import Message, unpacked
from apps.journal.admin import words
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.times import worded
from apps.reports.services import problems
from apps.reports.services.problems import ERROR
from apps.reports.watches import troubles
from apps.reports.watches.problem_rows import ProblemRow, problem_rows

REMARK_URL = "problems_said"
# The permission to remark on problems, which holds for everybody.
MAY_REMARK = "alerts.snooze_alert"
MAX_ROWS = 200
SEEN, SOLVE = "seen", "solve"
_SNOOZES = {"hour": timedelta(hours=1), "shift": timedelta(hours=8)}
REMARKS: Mapping[str, str | Promise] = {
    SEEN: _("Seen by me"),
    "hour": _("Snooze 1 h"),
    "shift": _("Snooze 8 h"),
}


def remark_on_problems(request: HttpRequest) -> HttpResponse:
    """Record that somebody has seen problems, snoozes them, or has solved them."""
    sight = Sight(request.user)
    if not sight.permits(MAY_REMARK):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    act, names = request.POST.get("act", ""), request.POST.getlist("row")[:MAX_ROWS]
    if act not in (*REMARKS, SOLVE):
        raise Http404(f"no act {act!r}")
    found = problem_rows(sight.view, sight.failing)
    rows = [row for name in names if (row := found.find(name)) is not None]
    if len(rows) < len(names):
        messages.info(request, gettext("It is over already."))
    if not names:
        messages.warning(request, gettext("Choose rows first."))
    note = " ".join(request.POST.get("note", "").split())
    for row in rows:
        try:
            _say(row, act, actor_of(request), note)
        except PlatformError as error:
            messages.error(request, translate(error.detail))
    troubles.found.forget()
    return HttpResponseRedirect(local_url(request.POST.get("back", "")) or reverse("admin:index"))


def _say(row: ProblemRow, act: str, actor: str, note: str) -> None:
    """Record the act: seen and snoozed for both trouble and error of the row, solved for the error
    alone; Invalid without one, because a trouble is over when it is not found any more."""
    cause, trouble = row.cause, row.trouble
    said = problems.Remark(actor, row.title, note)
    if act == SOLVE:
        kind, key = (row.kind, row.key) if cause is None else (ERROR, cause.key)
        problems.solve(kind, key, said)
    elif act == SEEN:
        for kind, key in _names(row):
            problems.mark_seen(kind, key, said)
    else:
        time = _SNOOZES[act]
        own: Callable[..., object] | None = None if trouble is None else trouble.watch.snooze
        if trouble is not None and own is not None:
            own(trouble.read.name, time, actor)
        for kind, key in _names(row):
            if kind == ERROR or own is None:
                problems.snooze(kind, key, said, time=time)


def _names(row: ProblemRow) -> list[tuple[str, str]]:
    """The kind and key of its trouble and of its error, of those that it has."""
    both = [] if row.trouble is None else [(row.trouble.kind, row.trouble.key)]
    return both if row.cause is None else [*both, (ERROR, row.cause.key)]


def _title(stored: Any) -> str:
    """What the problem was called when somebody remarked on it."""
    title = unpacked(stored)
    return worded(title).rstrip(".。") if isinstance(title, Message) else words.reason_of(title)


words.register(
    events={
        "problem_seen": words.Event(
            _("Problem seen"),
            "visibility",
            "info",
            said=_("marked as seen: {problem}"),
        ),
        "problem_snoozed": words.Event(
            _("Problem snoozed"), "snooze", "info", said=_("snoozed: {problem}")
        ),
        "problem_solved": words.Event(
            _("Problem solved"),
            "check_circle",
            "success",
            said=_("marked as solved: {problem}"),
        ),
        "problem_back": words.Event(_("Problem back again"), "undo", "warning"),
    },
    names={"problem": _("problem"), "kind": _("kind"), "key": _("key"), "until": _("until")},
    formatters={"problem": _title},
)
