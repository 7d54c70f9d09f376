"""The report page and its CSV; both take the same parameters."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.csv_text import download, plain_cell
from apps.common.errors import Invalid
from apps.dispatch.models import Executor, OperatorScope
from apps.jobs.models import bounds_of
from apps.reports.admin import chart, controls, quota
from apps.reports.admin.choice import ALL_COLUMNS, GROUPS, SHOWN, SOURCES, TABS, Choice, read_choice
from apps.reports.admin.report import (
    COLUMNS,
    SORTS,
    TIME_NAMES,
    Row,
    cells,
    columns_of,
    group_row,
    headings,
    is_empty,
    ordered,
    rows_of,
    tiles,
    time_names,
    time_rows,
)
from apps.reports.permissions import may_report
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import First
from apps.reports.services.summary import (
    DAY,
    HOUR,
    MINUTE,
    Figures,
    Period,
    Summary,
    summarise,
    total_of,
)

# Further rows of times and groups are only in the CSV.
MAX_ROWS = 400
MAX_GROUPS = 50
# More hours or days are folded below the groups.
MAX_OPEN = 31


def report(request: HttpRequest) -> HttpResponse:
    """The report that the address asks for; the page lists problems with the address."""
    view = _View.of(request)
    choice = _choice_of(request, view)
    if SHOWN in request.GET and not choice.problems:
        return HttpResponseRedirect(reverse("report") + choice.query())
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
        context |= _shown(sheet, has_quotas=view.within[DISPATCH] is None)
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
    rows = [*(row.figures for row in sheet.rows), replace(sheet.total, group="total")]
    is_by_task = choice.by == "task"
    titles = quota.titles([figures.group for figures in rows]) if is_by_task else {}
    heads = [choice.by, "title"] if is_by_task else [choice.by]
    writer.writerow([*heads, *(column.csv_name for column in columns)])
    for figures in rows:
        names = [figures.group, titles.get(figures.group, "")][: len(heads)]
        values = (column.value(figures) for column in columns)
        writer.writerow([*map(plain_cell, names), *map(_plain, values)])
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

    within: Mapping[str, Collection[str] | None]
    groups: dict[str, tuple[str, ...]]
    stored: Stored

    @classmethod
    def of(cls, request: HttpRequest) -> _View:
        user = request.user
        if not may_report(user):
            raise PermissionDenied
        within: dict[str, Collection[str] | None] = {DISPATCH: None, JOB: None}
        groups = dict(GROUPS)
        if OperatorScope.names_of(user) is not None:
            executors = Executor.objects.visible_to(user).users()
            within[DISPATCH] = list(executors.values_list("name", flat=True))
            # The figures of a task include other executors.
            groups[DISPATCH] = ("executor",)
        bounds = bounds_of(user)
        if not bounds.are_open:
            # The figures of a type include the jobs of other users.
            within[JOB] = () if bounds.users is not None else bounds.types
            groups[JOB] = ("type",)
        return cls(within, groups, Stored.read())


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
    within = view.within[source]
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
    columns = columns_of(choice, summary.total)
    # Times in which nothing ended would hide the others.
    listed = [row for row in sheet.rows if sheet.by_group is not None or not is_empty(row)]
    rows, empty = listed[:MAX_ROWS], len(sheet.rows) - len(listed)
    titles = quota.titles(_tasks_of(choice, rows))
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
        "headings": list(headings(choice, columns)),
        "plain_headings": [column.title for column in columns],
        "columns_url": choice.query(columns="" if choice.columns else ALL_COLUMNS),
        "has_all_columns": bool(choice.columns),
        "only_title": titles.get(choice.only[1], "") if choice.only else "",
        "more": len((sheet.by_group or summary).names) - empty - len(rows),
        "is_of_busiest": sheet.by_group is not None and choice.sort.lstrip("-") in TIME_NAMES,
        "total_cells": cells(choice, Row(summary.total, summary.start, summary.as_of), columns),
    }
    name_of = dict(zip((row.since for row in times), names, strict=True))
    if sheet.by_group is None:
        context["rows"] = time_rows(choice, choice.time_step, rows, columns, name_of)
        context["empty"] = _empty(choice, empty)
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
    """How many times are left out because nothing ended in them."""
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


def _span(choice: Choice, start: datetime, end: datetime) -> str:
    return f"{_instant(choice, start)} – {_instant(choice, end)}"


def _instant(choice: Choice, instant: datetime) -> str:
    local = instant.astimezone(choice.zone)
    return f"{date_format(local, 'SHORT_DATE_FORMAT')} {local:%H:%M}"
