"""The overview as a page that is whole by itself, and as the part of it that a script fetches.

What it costs depends on the number of types, workers, sweeps and minutes, never on the number of
jobs: all counts are capped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.db import fetch, table
from apps.dispatch.models import Executor
from apps.jobs.admin.serving import is_live, registered, unserved
from apps.jobs.admin.waiting import too_long
from apps.jobs.services.policies import all_types
from apps.reports.admin.overview import lately, present
from apps.reports.admin.overview.sight import Sight
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.lately import closed_until
from apps.reports.services.stretches import second_of

OVERVIEW_URL = "overview"
# What the last hour, as the reader has it, ends at.
KNOWN = "known"


class _Step(NamedTuple):
    """What to do first on an empty platform, who may, and where."""

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


def overview(request: HttpRequest, periods: Mapping[str, float]) -> dict[str, Any]:
    """What the template draws, {} for a person who may see nothing of it.

    `periods` says how many seconds lie between two turns of each sweep.
    """
    sight, now = Sight(request.user), clock.now()
    sees_types = sight.may("jobs.view_jobtype")
    types = all_types() if sees_types or JOB in sight.shown else []
    sees_workers = sight.may("jobs.view_worker")
    workers = registered() if sees_types or sees_workers else []
    empty = {JOB: not types, DISPATCH: DISPATCH in sight.shown and not _has_executors()}
    used = [source for source in sight.shown if not empty[source]]
    processes = present.processes(sight, workers if sees_workers else None, periods, now)
    panels = []
    if JOB in used:
        panels.append(present.jobs(types, now))
    if DISPATCH in used:
        panels.append(present.dispatches(sight, now))
    if processes["panel"]:
        panels.append(processes["panel"])
    drawn: dict[str, Any] = {
        "now": now,
        "panels": panels,
        "notices": processes["notices"],
        "sweeps": processes["sweeps"],
        "steps": [
            step for source in sight.shown if empty[source] for step in _steps(sight, source)
        ],
    }
    if sees_types and types:
        drawn["notices"] = [*present.held_back(types, now), *drawn["notices"]]
        live = [each for each in workers if is_live(each, now)]
        drawn |= {
            "unserved": unserved(types, live),
            "too_long": too_long([each.policy for each in types]),
        }
    sources = [source for source in sight.sources if source in used]
    if sources:
        drawn |= _last_hour(request, sight, sources, [each.name for each in types])
    return drawn if panels or drawn["steps"] else {}


def _has_executors() -> bool:
    return bool(fetch(f"SELECT 1 FROM {table(Executor)} LIMIT 1"))  # noqa: S608


def _steps(sight: Sight, source: str) -> Iterator[dict[str, Any]]:
    for step in _FIRST_STEPS[source]:
        if sight.may(step.permission):
            yield {"text": step.text, "url": reverse(step.url)}


def _last_hour(
    request: HttpRequest, sight: Sight, sources: list[str], types: list[str]
) -> dict[str, Any]:
    """Left out when the reader has it: it is the same for a minute."""
    until = closed_until()
    if until is None:
        return {"is_unsummed": True}
    known = str(second_of(until))
    if request.GET.get(KNOWN) == known:
        return {"known": known}
    return {"known": known, "hour": lately.hour(sight, sources, until, types)}


def refreshed(periods: Callable[[], Mapping[str, float]]) -> Callable[[HttpRequest], HttpResponse]:
    """The view of what a page replaces itself by."""

    def view(request: HttpRequest) -> HttpResponse:
        drawn = overview(request, periods())
        return render(request, "admin/overview/parts.html", {"overview": drawn})

    return view
