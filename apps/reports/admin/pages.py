"""The report page and its CSV; both take the same parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.csv_text import download
from apps.common.admin.pages import framed
from apps.common.errors import Invalid
from apps.reports.admin import chart, controls, quota
from apps.reports.admin.report import cells, group_row, headings, tiles, time_rows
from apps.reports.permissions import may_report
from apps.reports.rules.outcomes import DISPATCH
from apps.reports.services.choice import (
    ALL_COLUMNS,
    DEFAULT_PRESET,
    SHOWN,
    SOURCES,
    TABS,
    Choice,
)
from apps.reports.services.columns import (
    COLUMNS,
    TIME_NAMES,
    TIMES,
    Row,
    columns_of,
    is_empty,
    rows_of,
    time_names,
)
from apps.reports.services.sheet import Sheet, View, csv_of, local, read_sheet, span
from apps.reports.services.summary import DAY, HOUR, MINUTE
from apps.reports.services.titles import titles as titles_of

# The page is of an app above the reports.
PLAN_URL = "admin:alerts_reportplan_add"
# Further rows of times are only in the CSV.
MAX_ROWS = 400
# More hours or days are folded below the groups.
MAX_OPEN = 31


def report(request: HttpRequest) -> HttpResponse:
    """The report that the address asks for; the page lists problems with the address."""
    view = _view_of(request)
    choice = view.choice_of(request.GET)
    if SHOWN in request.GET and not choice.problems:
        return HttpResponseRedirect(reverse("report") + choice.query())
    context: dict[str, Any] = {
        "title": _("Reports"),
        "is_fullwidth": "1",
        "choice": choice,
        "problems": choice.problems,
        "controls": controls.controls(choice, view.groups),
        "csv_url": reverse("report_csv") + choice.query(),
        "plan_url": _plan_url(request, choice),
    }
    try:
        sheet = read_sheet(choice, view, is_whole=False)
    except Invalid:
        context["problems"] = (*choice.problems, _why_not(choice))
    else:
        context |= _shown(sheet, has_quotas=view.within[DISPATCH] is None)
    return framed(request, "admin/report.html", **context)


def report_csv(request: HttpRequest) -> HttpResponseBase:
    """The whole table of a report; a report with problems redirects to its page."""
    view = _view_of(request)
    choice = view.choice_of(request.GET)
    try:
        sheet = None if choice.problems else read_sheet(choice, view, is_whole=True)
    except Invalid:
        sheet = None
    if sheet is None:
        return HttpResponseRedirect(f"{reverse('report')}?{request.GET.urlencode()}")
    name, text = csv_of(sheet)
    return download(text, name=name, file={"source": choice.source, "by": choice.by})


def _plan_url(request: HttpRequest, choice: Choice) -> str:
    """The page on which the report is planned to be sent regularly, "" without the permission; a
    fixed period becomes the usual one, which goes on."""
    user: Any = request.user
    if not user.has_perm("alerts.add_reportplan"):
        return ""
    query = choice.query(preset=choice.preset or DEFAULT_PRESET)[1:]
    return f"{reverse(PLAN_URL)}?{urlencode({'query': query})}"


def _why_not(choice: Choice) -> str:
    """Why a valid address has no figures."""
    if choice.start > clock.now():
        return gettext("This period has not begun yet; choose an earlier one.")
    return gettext(
        "Hours and days of this time zone are not kept for so long; choose groups, a "
        "later period or another time zone."
    )


# --- the figures ----------------------------------------------------------------------------------
def _view_of(request: HttpRequest) -> View:
    if not may_report(request.user):
        raise PermissionDenied
    return View.of(request.user)


def _shown(sheet: Sheet, *, has_quotas: bool) -> dict[str, Any]:
    choice, summary = sheet.choice, sheet.through_time
    columns = columns_of(choice, summary.total)
    rows = sheet.listed[:MAX_ROWS]
    titles = titles_of(_tasks_of(choice, rows))
    # The chart is in order of time, however the table is sorted.
    times = rows_of(summary)
    names = time_names(choice, choice.time_step, times)
    figures = {"time": chart.through_time(choice, times, names), "words": chart.words()}
    context: dict[str, Any] = {
        "summary": summary,
        "has_begun": summary.as_of > summary.start,
        "is_hidden": sheet.is_hidden,
        "why_empty": sheet.why_empty,
        "span": span(choice, summary.start, choice.end),
        "span_before": span(choice, sheet.period_before.start, sheet.period_before.end),
        "as_of": local(choice, summary.as_of),
        "tiles": list(tiles(choice, summary, sheet.before)),
        "source_title": SOURCES[choice.source],
        "has_waits": TIMES[0] in COLUMNS[choice.source],
        "heading_of_rows": TABS[choice.by],
        "heading_of_times": TABS[choice.time_step],
        "headings": list(headings(choice, columns)),
        "plain_headings": [column.title for column in columns],
        "columns_url": choice.query(columns="" if choice.columns else ALL_COLUMNS),
        "has_all_columns": bool(choice.columns),
        "only_title": titles.get(choice.only[1], "") if choice.only else "",
        "more": sheet.hidden_count(len(rows)),
        "is_of_busiest": sheet.by_group is not None and choice.sort.lstrip("-") in TIME_NAMES,
        "total_cells": cells(choice, Row(summary.total, summary.start, summary.as_of), columns),
    }
    name_of = dict(zip((row.since for row in times), names, strict=True))
    if sheet.by_group is None:
        context["rows"] = time_rows(choice, choice.time_step, rows, columns, name_of)
        context["empty"] = _empty(choice, len(sheet.rows) - len(sheet.listed))
    else:
        figures["group"] = chart.by_group(choice, rows, titles)
        busy = [row for row in times if not is_empty(row)]
        context |= {
            "rows": [
                group_row(choice, choice.by, row, columns, titles.get(row.figures.group, ""))
                for row in rows
            ],
            "time_rows": time_rows(choice, choice.time_step, busy, columns, name_of),
            "empty_times": _empty(choice, len(times) - len(busy)),
            "is_short": len(busy) <= MAX_OPEN,
        }
        if choice.by == "task" and has_quotas:
            context["quotas"] = quota.quotas(sheet.by_group)
    if summary.total.total:
        context["figures"] = figures
    return context


def _tasks_of(choice: Choice, rows: Sequence[Row]) -> list[str]:
    """The tasks that the page names, by label."""
    named = [choice.only] if choice.only else []
    return [
        *(row.figures.group for row in rows if choice.by == "task"),
        *(name for dimension, name in named if dimension == "task"),
    ]


def _empty(choice: Choice, count: int) -> str:
    """The sentence that says how many empty minutes, hours or days are left out."""
    if not count:
        return ""
    words = {
        MINUTE: ngettext(
            "Nothing ended in %d other minute.", "Nothing ended in %d other minutes.", count
        ),
        HOUR: ngettext(
            "Nothing ended in %d other hour.", "Nothing ended in %d other hours.", count
        ),
        DAY: ngettext("Nothing ended on %d other day.", "Nothing ended on %d other days.", count),
    }
    return words[choice.time_step] % count
