"""The overview as a complete page, and the parts of it that its script fetches.

Its cost depends on the number of types, workers and sweeps, never on the number of jobs: all counts
are capped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.access.models import ApiClient
from apps.common.admin.html import list_url
from apps.common.db import fetch, table
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.journal.services.minutes import second_of
from apps.reports.admin.overview import chart, figures, strip, tables
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.times import zoned_clock
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services import lately
from apps.reports.services.fact_sheet import FactSheet, current_sheet
from apps.reports.watches.troubles import visible_troubles

OVERVIEW_URL = "overview"
# The second at which the chart ends that the page has.
KNOWN = "known"


class _Step(NamedTuple):
    """A first step on an empty platform: its permission and address."""

    permission: str
    text: str | Promise
    url: str


_FIRST_STEPS = {
    DISPATCH: (
        _Step(
            "dispatch.add_executor",
            _("Add the people and groups that tasks are for"),
            "admin:dispatch_executor_add",
        ),
        _Step("dispatch.add_oncetask", _("Plan a task for them"), "admin:dispatch_oncetask_add"),
        _Step(
            "access.add_apiclient",
            _("Make an API key for the program that pulls and calls back"),
            "admin:access_apiclient_add",
        ),
    ),
    JOB: (
        _Step(
            "jobs.add_jobtype",
            _("Add a job type: who runs its jobs, how long, how often again"),
            "admin:jobs_jobtype_add",
        ),
        _Step("jobs.add_job", _("Submit a job of it"), "admin:jobs_job_add"),
    ),
}


def overview(request: HttpRequest) -> dict[str, Any]:
    """The context of the template; {} for a person who may see nothing of it."""
    seen = _Seen.by(request)
    present = _present(seen)
    return {**present, **_chart(seen)} if present else {}


@dataclass(frozen=True)
class _Seen:
    """The home page of a person: the sources (jobs, dispatches) that can have rows (`used`) and
    those with figures (`summed`); the first steps still to do; and the hours of the chart."""

    sight: Sight
    status: FactSheet
    used: list[str]
    steps: list[_Step]
    summed: list[str]
    hours: int

    @property
    def known(self) -> str:
        """The chart that a page has: up to the newest minute that is added up."""
        until = self.status.stored.closed_until
        return "" if until is None else known_of(until)

    @classmethod
    def by(cls, request: HttpRequest) -> _Seen:
        sight = Sight(request.user)
        status = current_sheet()
        types = status.types if sight.job_types is None else sight.job_types
        has_types = JOB in sight.shown and bool(types)
        taken = {JOB: [has_types] * 2, DISPATCH: _steps_done() if DISPATCH in sight.shown else []}
        # Jobs are possible once there is a type, dispatches once there is an executor.
        used = [source for source in sight.shown if taken[source][0]]
        steps = [
            step
            for source in sight.shown
            for step, is_taken in zip(_FIRST_STEPS[source], taken[source], strict=True)
            if not is_taken and sight.may(step.permission)
        ]
        summed = [source for source in sight.sources if source in used]
        hours = chart.hours_of(request.GET.get(chart.HOURS, ""))
        return cls(sight, status, used, steps, summed, hours)

    def window(self, source: str, hours: int) -> lately.Window:
        values = self.sight.job_types if source == JOB else self.sight.executors
        chosen = lately.selection(source, values)
        status = self.status
        return lately.window(status.now, status.stored, status.unsummed, chosen, hours_back=hours)


def _present(seen: _Seen) -> dict[str, Any]:
    """The present state; {} where this person sees nothing of it."""
    sight, status = seen.sight, seen.status
    hours = {JOB: seen.window(JOB, 1)} if JOB in seen.summed else {}
    found = visible_troubles(sight.view)
    drawn = {
        "now": status.now,
        "shown_now": zoned_clock(status.now),
        "strip": strip.strip(sight, found),
        "figures": figures.figures(sight, status, hours) if seen.used else [],
        "types": tables.types(sight, status, found.open) if seen.used else None,
        "groups": tables.groups(sight, status, found.open) if DISPATCH in seen.used else [],
        "groups_url": list_url(Executor, kind=Executor.Kind.GROUP),
        "steps": [{"text": step.text, "url": reverse(step.url)} for step in seen.steps],
        "is_new": len(seen.used) < len(sight.shown),
    }
    sees_any = drawn["figures"] or drawn["types"] or drawn["steps"] or found.open
    return drawn if sees_any else {}


def _chart(seen: _Seen) -> dict[str, Any]:
    """The chart of the ends, step by step, and the newest minute that is added up in it."""
    windows = {source: seen.window(source, seen.hours) for source in seen.summed}
    alerts = [
        each.read.since for each in visible_troubles(seen.sight.view).open if each.kind == "alerts"
    ]
    drawn = chart.chart(
        seen.hours, windows.get(JOB), windows.get(DISPATCH), alerts[0] if alerts else None
    )
    return {"chart": drawn, "known": seen.known}


def known_of(until: datetime) -> str:
    """The value that a page sends as `known` when its chart ends at `until`."""
    return str(second_of(until))


# Once all is done, somebody would have to delete all of a kind.
steps_kept: TTLCache[list[bool]] = TTLCache(600.0)


def _steps_done() -> list[bool]:
    """Whether each first step to dispatches is done: an executor, a task, an API key."""
    found = steps_kept.get("", _read_steps)
    if not all(found):
        steps_kept.forget()
    return found


def _read_steps() -> list[bool]:
    executor, once, rotate, client = (
        f"EXISTS (SELECT 1 FROM {table(model)})"
        for model in (Executor, OnceTask, RotateTask, ApiClient)
    )
    [row] = fetch(f"SELECT {executor}, {once} OR {rotate}, {client}")
    return [bool(each) for each in row]


def refreshed(request: HttpRequest) -> HttpResponse:
    """One part of the page: the chart, if it lacks the newest minute, else the present state. So no
    answer takes as long as the whole page."""
    seen = _Seen.by(request)
    is_old = seen.known and request.GET.get(KNOWN) != seen.known
    drawn = _chart(seen) if is_old else _present(seen)
    return render(request, "admin/overview/parts.html", {"overview": drawn})
