"""The page of problems: one row for each cause, in which state it is, and one of them in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import shown_text, shown_time
from apps.common.admin.html import list_url
from apps.common.admin.pages import framed
from apps.dispatch.models import Dispatch
from apps.jobs.models import Job
from apps.journal.admin.words import reason_of
from apps.reports.admin.overview.remarks import MAY_REMARK, REMARKS, SOLVE
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.times import zoned_clock
from apps.reports.admin.problems.draw import Drawing, counted
from apps.reports.admin.sparkline import sparkline
from apps.reports.permissions import may_see_failures, may_see_problems
from apps.reports.rules.outcomes import JOB
from apps.reports.services.causes import Cause, day_of
from apps.reports.watches.problem_rows import NEW, SEEN, SNOOZED, SOLVED, ProblemRow, problem_rows

PROBLEMS_URL = "problems"
MAX_SHOWN = 100
MAX_PARTS = 20
OPEN, NOW = "open", "now"
# The tabs; "now" has what the menu and the home page count.
STATES: Mapping[str, tuple[str | Promise, Callable[[ProblemRow], bool]]] = {
    OPEN: (pgettext_lazy("problems", "Open"), lambda row: row.is_open),
    NOW: (_("Need you now"), lambda row: row.is_open and row.trouble is not None),
    NEW: (pgettext_lazy("problems", "New"), lambda row: row.state == NEW),
    SEEN: (pgettext_lazy("problems", "Seen"), lambda row: row.state == SEEN),
    SNOOZED: (pgettext_lazy("problems", "Snoozed"), lambda row: row.state == SNOOZED),
    SOLVED: (pgettext_lazy("problems", "Solved"), lambda row: row.state == SOLVED),
}
# Problems that need somebody, and errors that no watch reports.
_GROUPS: Sequence[tuple[str | Promise, Callable[[ProblemRow], bool]]] = (
    (_("Need you now"), lambda row: row.trouble is not None),
    (pgettext_lazy("problems", "Known"), lambda row: row.trouble is None),
)
_ONE: Sequence[tuple[str | Promise, Callable[[ProblemRow], bool]]] = (("", lambda row: True),)
WORST, NEWEST, BACK = "worst", "newest", "back"
SORTS = {WORST: _("Worst"), NEWEST: _("Newest"), BACK: _("Back again")}


def problems_page(request: HttpRequest) -> HttpResponse:
    """The rows of the tab of the address, and below them the one that it names."""
    if not may_see_problems(request.user):
        raise PermissionDenied
    sight = Sight(request.user)
    found = problem_rows(sight.view, sight.failing)
    state, sort = request.GET.get("state", OPEN), request.GET.get("sort", WORST)
    state, sort = state if state in STATES else OPEN, sort if sort in SORTS else WORST
    here = {"state": state, "sort": sort}
    rows = _sorted([row for row in found.rows if STATES[state][1](row)], sort)
    chosen = found.find(request.GET.get("row", ""))
    shown = rows[:MAX_SHOWN]
    drawing = Drawing(sight, [*shown, *([chosen] if chosen is not None else [])])
    address = reverse(PROBLEMS_URL)
    context: dict[str, Any] = {
        "title": _("Problems"),
        "is_fullwidth": "1",
        "tabs": [
            (address + _query(here, state=name), words, sum(map(has, found.rows)), name == state)
            for name, (words, has) in STATES.items()
        ],
        "sorts": [
            (address + _query(here, sort=name), words, name == sort)
            for name, words in SORTS.items()
        ],
        "groups": [
            (title, len([*filter(has, rows)]), [drawing.drawn(row) for row in shown if has(row)])
            for title, has in (_GROUPS if state not in (SNOOZED, SOLVED) else _ONE)
            if any(map(has, shown))
        ],
        "row_url": f"{address}{_query(here, row='')}",
        "back": address + _query(here),
        "beyond": len(rows) - len(shown),
        "more": found.more,
        "failures_url": reverse("failures") if may_see_failures(request.user) else "",
        "acts": list(REMARKS.items()) if sight.permits(MAY_REMARK) else [],
        "solve": SOLVE,
        "now": zoned_clock(clock.now()),
        "is_solved": state == SOLVED,
        "live_url": _query(here, **({"row": chosen.name} if chosen else {}), _part="rows"),
    }
    if chosen is not None:
        context["chosen"] = drawing.drawn(chosen)
        context["panel"] = _panel(chosen, drawing, request)
    is_part = "_part" in request.GET
    template = "admin/includes/problems_live.html" if is_part else "admin/problems.html"
    return framed(request, template, **context)


def _query(here: Mapping[str, str], **changes: str) -> str:
    asked = {**here, **changes}
    if asked.get("state") == OPEN:
        del asked["state"]
    if asked.get("sort") == WORST:
        del asked["sort"]
    return f"?{urlencode(asked)}" if asked else ""


def _sorted(rows: Sequence[ProblemRow], sort: str) -> list[ProblemRow]:
    """Rows come the worst first."""
    if sort == NEWEST:
        last = {row.name: row.last.timestamp() if row.last else 0.0 for row in rows}
        return sorted(rows, key=lambda row: -last[row.name])
    if sort == BACK:
        return sorted(rows, key=lambda row: not row.is_back)
    return list(rows)


def _panel(row: ProblemRow, drawing: Drawing, request: HttpRequest) -> dict[str, Any]:
    """The panel of one row in full."""
    cause = row.cause
    if cause is None:
        return {}
    steps = day_of(cause, clock.now())
    words = gettext("Failed for good in each hour of the last day; highest %d.") % max(steps)
    return {
        "counted": counted(row),
        "first": shown_time(cause.first_seen),
        "last": shown_time(cause.last_seen),
        "sample": shown_text(reason_of(cause.newest.sample)),
        "picture": sparkline(steps, words, failed=steps),
        "parts": [*_parts(cause, drawing)],
    }


def _parts(cause: Cause, drawing: Drawing) -> Iterator[tuple[str, str, int]]:
    """Each job type or task with its count and the failed rows of it."""
    for part in cause.parts[:MAX_PARTS]:
        name = drawing.name_of(part.type_or_task)
        if part.source == JOB:
            yield name, list_url(Job, type=part.type_or_task, error_key=cause.key), part.counts[0]
        else:
            source, _colon, task = part.type_or_task.partition(":")
            yield name, list_url(Dispatch, source=source, task=task), part.counts[0]
