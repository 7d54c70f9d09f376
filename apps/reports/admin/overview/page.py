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
from apps.common.admin.display import shown_time
from apps.common.db import fetch, table
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.journal.services.minutes import second_of
from apps.reports.admin.overview import hour, present, strip, trends
from apps.reports.admin.overview.sight import Sight
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.standing import Standing, standing

OVERVIEW_URL = "overview"
# The second at which the trends end that the page has.
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
            _("Add an executor: the user or group that tasks are for"),
            "admin:dispatch_executor_add",
        ),
        _Step("dispatch.add_oncetask", _("Plan a task for it"), "admin:dispatch_oncetask_add"),
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
    seen = _Seen.by(request.user)
    drawn = _present(seen)
    if seen.until is not None:
        drawn["trends"] = _trends(seen, seen.until)
    return drawn if drawn["panels"] or drawn["steps"] else {}


@dataclass(frozen=True)
class _Seen:
    """What a person sees: of jobs and dispatches those that can exist (`used`) and
    those with figures (`summed`, added up `until`); and the first steps still to do."""

    sight: Sight
    status: Standing
    used: list[str]
    steps: list[_Step]
    summed: list[str]

    @property
    def until(self) -> datetime | None:
        return self.status.stored.closed_until if self.summed else None

    @classmethod
    def by(cls, user: Any) -> _Seen:
        sight = Sight(user)
        status = standing()
        types = status.types if sight.job_types is None else sight.job_types
        has_types = JOB in sight.shown and bool(types)
        taken = {JOB: [has_types] * 2, DISPATCH: _taken() if DISPATCH in sight.shown else []}
        # With a type there can be jobs, with an executor dispatches.
        used = [source for source in sight.shown if taken[source][0]]
        steps = [
            step
            for source in sight.shown
            for step, is_taken in zip(_FIRST_STEPS[source], taken[source], strict=True)
            if not is_taken and sight.may(step.permission)
        ]
        summed = [source for source in sight.sources if source in used]
        return cls(sight, status, used, steps, summed)


def _present(seen: _Seen) -> dict[str, Any]:
    """The present state."""
    sight, status = seen.sight, seen.status
    processes = present.processes(sight, status)
    hours = hour.panels(sight, status, seen.summed, seen.until) if seen.until else {}
    panels = []
    for source in seen.used:
        draw = present.jobs if source == JOB else present.dispatches
        panels.append(draw(sight, status))
        if source in hours:
            panels.append(hours[source])
    if processes["panel"]:
        panels.append(processes["panel"])
    drawn: dict[str, Any] = {
        "now": status.now,
        "shown_now": shown_time(status.now),
        "panels": panels,
        "strip": strip.strip(sight),
        "sweeps": processes["sweeps"],
        "is_unsummed": seen.summed and seen.until is None,
        "steps": [{"text": step.text, "url": reverse(step.url)} for step in seen.steps],
        "is_new": len(seen.used) < len(sight.shown),
    }
    return drawn


def _trends(seen: _Seen, until: datetime) -> dict[str, Any]:
    """The last hour minute by minute, which ended at `until`."""
    return {
        "known": known_of(until),
        "charts": trends.charts(seen.sight, seen.summed, until),
        "tables": trends.tables(seen.sight, seen.summed, until),
        "shown_until": shown_time(until),
    }


def known_of(until: datetime) -> str:
    """What a page sends that has the trends of the hour before `until`."""
    return str(second_of(until))


def _taken() -> list[bool]:
    """Which of the first steps to dispatches are done."""
    executor, once, rotate, client = (
        f"EXISTS (SELECT 1 FROM {table(model)})"
        for model in (Executor, OnceTask, RotateTask, ApiClient)
    )
    [row] = fetch(f"SELECT {executor}, {once} OR {rotate}, {client}")
    return [bool(each) for each in row]


def refreshed(request: HttpRequest) -> HttpResponse:
    """One part of the page: the trends, if it lacks those of the newest hour, else the present
    state. So no answer takes as long as the whole page."""
    seen = _Seen.by(request.user)
    until = seen.until
    if until and request.GET.get(KNOWN) != known_of(until):
        drawn = {"trends": _trends(seen, until)}
    else:
        drawn = _present(seen)
    return render(request, "admin/overview/parts.html", {"overview": drawn})
