"""The report page and its CSV; both take the same parameters."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.csv_text import download, plain_cell
from apps.common.admin.display import shown_text
from apps.common.errors import Invalid
from apps.dispatch.models import Executor, OperatorScope
from apps.reports.admin import chart, controls, quota
from apps.reports.admin.choice import GROUPS, SOURCES, TABS, Choice, read_choice
from apps.reports.admin.report import (
    COLUMNS,
    SORTS,
    TIME_NAMES,
    Row,
    cells,
    group_row,
    headings,
    ordered,
    rows_of,
    tiles,
    time_names,
    time_rows,
)
from apps.reports.permissions import may_report
from apps.reports.rules.outcomes import DISPATCH
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import First
from apps.reports.services.summary import Figures, Period, Summary, summarise, total_of

# Further rows of times and groups are only in the CSV.
MAX_ROWS = 400
MAX_GROUPS = 50
# More hours or days are folded below the groups.
MAX_OPEN = 31


def report(request: HttpRequest) -> HttpResponse:
    """The report that the address asks for; the page lists problems with the address."""
    view = _View.of(request)
    choice = _choice_of(request, view)
    context = {
        **admin.site.each_context(request),
        "title": _("Reports"),
        "subtitle": None,
        "is_fullwidth": "1",
        "choice": choice,
        "problems": choice.problems,
        "controls": controls.controls(choice, view.groups),
        "csv_url": reverse("report_csv") + choice.query(),
    }
    try:
        sheet = _sheet(choice, view, is_whole=False)
    except Invalid:
        context["problems"] = (*choice.problems, _why_not(choice))
    else:
        context |= _shown(sheet, has_quotas=view.within is None)
    return TemplateResponse(request, "admin/report.html", context)


def report_csv(request: HttpRequest) -> HttpResponseBase:
    """The whole table of a report; a report with problems redirects to its page."""
    view = _View.of(request)
    choice = _choice_of(request, view)
    try:
        sheet = None if choice.problems else _sheet(choice, view, is_whole=True)
    except Invalid:
        sheet = None
    if sheet is None:
        return HttpResponseRedirect(f"{reverse('report')}?{request.GET.urlencode()}")
    columns = COLUMNS[choice.source]
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL)
    writer.writerow([choice.by, *(column.name for column in columns)])
    for figures in (*(row.figures for row in sheet.rows), replace(sheet.total, group="total")):
        values = (column.value(figures) for column in columns)
        writer.writerow([plain_cell(figures.group), *(_plain(value) for value in values)])
    name = f"report-{choice.source}-{choice.by}-{sheet.through_time.start:%Y%m%dT%H%MZ}.csv"
    return download(lines.getvalue(), name=name)


def _plain(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else plain_cell(value)


def _why_not(choice: Choice) -> str:
    """Why a valid address has no figures."""
    if choice.start > clock.now():
        return gettext("This period has not begun yet; choose an earlier one.")
    return gettext(
        "Hours and days of this time zone are not kept for so long; choose groups, a "
        "later period or another time zone."
    )


# --- the request ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _View:
    """What a person may see, all executors (None) or some, and by which groupings; and what is
    stored."""

    within: Collection[str] | None
    groups: dict[str, tuple[str, ...]]
    stored: Stored

    @classmethod
    def of(cls, request: HttpRequest) -> _View:
        if not may_report(request.user):
            raise PermissionDenied
        stored = Stored.read()
        if OperatorScope.names_of(request.user) is None:
            return cls(None, GROUPS, stored)
        executors = Executor.objects.visible_to(request.user).users()
        # The figures of a task include other executors.
        groups = {**GROUPS, DISPATCH: ("executor",)}
        return cls(list(executors.values_list("name", flat=True)), groups, stored)


def _choice_of(request: HttpRequest, view: _View) -> Choice:
    return read_choice(
        request.GET,
        clock.now(),
        groups=view.groups,
        sorts=SORTS,
        minutes_from=view.stored.minutes_from,
    )


# --- the figures ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Sheet:
    """All figures of a report: through time, by group if chosen, and the total of the period
    before."""

    choice: Choice
    through_time: Summary
    by_group: Summary | None
    period_before: Period
    before: Figures

    @property
    def total(self) -> Figures:
        return self.through_time.total

    @property
    def rows(self) -> list[Row]:
        """The sorted rows of the table."""
        return ordered(self.choice, rows_of(self.by_group or self.through_time))


def _sheet(choice: Choice, view: _View, *, is_whole: bool) -> _Sheet:
    """The figures of the report, with all groups if `is_whole`."""
    source, period, only, stored = choice.source, choice.period, choice.only, view.stored
    within = view.within if source == DISPATCH else None
    through_time = summarise(
        source, choice.time_step, period, only=only, within=within, stored=stored
    )
    by_group = None
    if choice.is_by_group:
        first = None if is_whole else First(MAX_GROUPS, choice.sort)
        by_group = summarise(source, choice.by, period, within=within, first=first, stored=stored)
    period_before = choice.before(through_time.as_of)
    before = total_of(source, period_before, only=only, within=within, stored=stored)
    return _Sheet(choice, through_time, by_group, period_before, before)


def _shown(sheet: _Sheet, *, has_quotas: bool) -> dict[str, Any]:
    choice, summary = sheet.choice, sheet.through_time
    rows = sheet.rows[:MAX_ROWS]
    # The chart is in order of time, however the table is sorted.
    times = rows_of(summary)
    names = time_names(choice, choice.time_step, times)
    figures = {"time": chart.through_time(choice, times, names), "words": chart.words()}
    context: dict[str, Any] = {
        "summary": summary,
        "has_begun": summary.as_of > summary.start,
        "span": _span(choice, summary.start, choice.end),
        "span_before": _span(choice, sheet.period_before.start, sheet.period_before.end),
        "as_of": _instant(choice, summary.as_of),
        "tiles": list(tiles(choice, summary, sheet.before)),
        "source_title": SOURCES[choice.source],
        "heading_of_rows": TABS[choice.by],
        "heading_of_times": TABS[choice.time_step],
        "headings": list(headings(choice)),
        "plain_headings": [column.title for column in COLUMNS[choice.source]],
        "more": len((sheet.by_group or summary).names) - len(rows),
        "is_of_busiest": sheet.by_group is not None and choice.sort.lstrip("-") in TIME_NAMES,
        "total_cells": cells(choice, Row(summary.total, summary.start, summary.as_of)),
    }
    name_of = dict(zip((row.since for row in times), names, strict=True))
    if sheet.by_group is None:
        context["rows"] = time_rows(choice, choice.time_step, rows, name_of)
    else:
        figures["group"] = chart.by_group(choice, rows)
        context |= {
            "rows": _group_rows(choice, rows),
            "time_rows": time_rows(choice, choice.time_step, times, name_of),
            "is_short": len(times) <= MAX_OPEN,
        }
        if choice.by == "task" and has_quotas:
            context["quotas"] = quota.quotas(sheet.by_group)
    if summary.total.total:
        context["figures"] = figures
    return context


def _group_rows(choice: Choice, rows: Sequence[Row]) -> list[SafeString]:
    notes = quota.titles([row.figures.group for row in rows]) if choice.by == "task" else {}
    return [
        group_row(choice, choice.by, row, shown_text(notes.get(row.figures.group, "")))
        for row in rows
    ]


def _span(choice: Choice, start: datetime, end: datetime) -> str:
    return f"{_instant(choice, start)} – {_instant(choice, end)}"


def _instant(choice: Choice, instant: datetime) -> str:
    local = instant.astimezone(choice.zone)
    return f"{date_format(local, 'SHORT_DATE_FORMAT')} {local:%H:%M}"
