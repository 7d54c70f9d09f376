"""The figures of one report as a person may see them, for its page, its CSV and messages."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import QueryDict
from django.utils.formats import date_format
from django.utils.translation import gettext

from apps.common import clock
from apps.common.admin.csv_text import plain_cell
from apps.dispatch.models import Executor, OperatorScope
from apps.flows.services.flows import steps_of
from apps.jobs.models import bounds_of
from apps.reports.permissions import may_see_flows
from apps.reports.rules.outcomes import DISPATCH, FLOW, JOB, STEP
from apps.reports.services.choice import GROUPS, Choice, read_choice
from apps.reports.services.columns import COLUMNS, SORTS, Row, is_empty, ordered, rows_of
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import First
from apps.reports.services.summary import Figures, Period, Summary, summarise, total_of
from apps.reports.services.titles import titles

# Further groups are only in the CSV.
MAX_GROUPS = 50


@dataclass(frozen=True)
class View:
    """The reports that a person may see: of these sources by these groupings, of all executors or
    types (None) or of some; and the extent of the totals. `may_report` decides whether they see any
    reports. A flow has parts of many, so people with limits have no figures of flows."""

    within: Mapping[str, Collection[str] | None]
    # Figures of a job type or host include jobs of users that the person may not see.
    hides_jobs: bool
    groups: dict[str, tuple[str, ...]]
    stored: Stored

    @classmethod
    def of(cls, user: AbstractBaseUser | AnonymousUser) -> View:
        within: dict[str, Collection[str] | None] = dict.fromkeys(GROUPS)
        groups = dict(GROUPS)
        if OperatorScope.names_of(user) is not None:
            executors = Executor.objects.visible_to(user).users()
            within[DISPATCH] = list(executors.values_list("name", flat=True))
            # The figures of a task include other executors.
            groups[DISPATCH] = ("executor",)
        bounds = bounds_of(user)
        if not bounds.are_open:
            within[JOB] = () if bounds.users is not None else bounds.types
            groups[JOB] = ("type",)
        if within[DISPATCH] is not None or not may_see_flows(user):
            del groups[FLOW], groups[STEP]
        return cls(within, bounds.users is not None, groups, Stored.read())

    def choice_of(self, query: QueryDict, now: datetime | None = None) -> Choice:
        """The report of that address; its periods end at `now`."""
        return read_choice(
            query,
            now or clock.now(),
            groups=self.groups,
            source=DISPATCH if self.hides_jobs else JOB,
            sorts=SORTS,
            minutes_from=self.stored.minutes_from,
        )


@dataclass(frozen=True)
class Sheet:
    """All figures of a report: through time, by group if chosen, and the total of the period
    before."""

    choice: Choice
    through_time: Summary
    by_group: Summary | None
    period_before: Period
    before: Figures
    is_hidden: bool

    @property
    def why_empty(self) -> str:
        """The sentence that says why a report has no figures."""
        if self.is_hidden:
            return gettext("Figures of jobs include jobs of others; your limits hide them.")
        return gettext("Nothing ended in this period.")

    @property
    def total(self) -> Figures:
        return self.through_time.total

    @cached_property
    def rows(self) -> list[Row]:
        """The sorted rows of the table."""
        return ordered(self.choice, rows_of(self.by_group or self.through_time))

    @cached_property
    def listed(self) -> list[Row]:
        """The rows that are shown: times in which nothing ended would hide the others."""
        return [row for row in self.rows if self.by_group is not None or not is_empty(row)]

    def hidden_count(self, shown: int) -> int:
        """The number of rows behind the first ones that are `shown`."""
        names = (self.by_group or self.through_time).names
        return len(names) - (len(self.rows) - len(self.listed)) - shown


def read_sheet(choice: Choice, view: View, *, is_whole: bool) -> Sheet:
    """The figures of the report, with all groups if `is_whole`; Invalid when there are none."""
    source, period, only, stored = choice.source, choice.period, choice.only, view.stored
    within = steps_of(choice.flow) if choice.flow else view.within[source]
    through_time = summarise(
        source, choice.time_step, period, only=only, within=within, stored=stored
    )
    by_group = None
    if choice.is_by_group:
        first = None if is_whole else First(MAX_GROUPS, choice.sort)
        by_group = summarise(source, choice.by, period, within=within, first=first, stored=stored)
    period_before = choice.before(through_time.as_of)
    before = total_of(source, period_before, only=only, within=within, stored=stored)
    is_hidden = source == JOB and view.hides_jobs
    return Sheet(choice, through_time, by_group, period_before, before, is_hidden)


def csv_of(sheet: Sheet) -> tuple[str, str]:
    """The name and the text of the file with the whole table."""
    choice = sheet.choice
    columns = COLUMNS[choice.source]
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL)
    rows = [*(row.figures for row in sheet.rows), replace(sheet.total, group="total")]
    is_by_task = choice.by == "task"
    titled = titles([figures.group for figures in rows]) if is_by_task else {}
    heads = [choice.by, "title"] if is_by_task else [choice.by]
    writer.writerow([*heads, *(column.csv_name for column in columns)])
    for figures in rows:
        names = [figures.group, titled.get(figures.group, "")][: len(heads)]
        values = (column.value(figures) for column in columns)
        writer.writerow([*map(plain_cell, names), *map(_plain, values)])
    name = f"report-{choice.source}-{choice.by}-{sheet.through_time.start:%Y%m%dT%H%MZ}.csv"
    return name, lines.getvalue()


def _plain(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else plain_cell(value)


def span(choice: Choice, start: datetime, end: datetime) -> str:
    """A period in the zone of the report."""
    return f"{local(choice, start)} – {local(choice, end)}"


def local(choice: Choice, instant: datetime) -> str:
    """An instant in the zone of the report."""
    at = instant.astimezone(choice.zone)
    return f"{date_format(at, 'SHORT_DATE_FORMAT')} {at:%H:%M}"
