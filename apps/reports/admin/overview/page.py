"""The overview as a page that is whole by itself, and as the part of it that a script fetches.

What it costs depends on the number of types, workers, sweeps and minutes, never on the number of
jobs: all counts are capped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.access.models import ApiClient
from apps.common import clock
from apps.common.db import fetch, table
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.jobs.admin.labels import waiting_too_long
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.facts import registered, takes_jobs, unserved
from apps.jobs.services.type_snapshots import all_types
from apps.reports.admin.overview import lately, present
from apps.reports.admin.overview.sight import Sight
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.lately import closed_until
from apps.reports.services.stretches import second_of

OVERVIEW_URL = "overview"
# The parts of the last hour that the reader has, each with the second it ends at.
KNOWN = "known"
_LATELY = {"hour": lately.panels, "courses": lately.tables}


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
    seen = _Seen.by(request.user)
    drawn = _present(seen, periods)
    if seen.until is not None:
        for part in _LATELY:
            drawn |= _lately(seen, part, seen.until)
    return drawn if drawn["panels"] or drawn["steps"] else {}


@dataclass(frozen=True)
class _Seen:
    """What a person sees: job types, and of jobs and dispatches those there can be any of (`used`),
    and of those the ones whose totals can be seen (`summed`), as far as they are added up; and what
    is still to be done first (`steps`)."""

    sight: Sight
    types: list[TypeSnapshot]
    used: list[str]
    steps: list[_Step]
    summed: list[str]
    until: datetime | None

    @classmethod
    def by(cls, user: Any) -> _Seen:
        sight = Sight(user)
        types = all_types() if sight.may("jobs.view_jobtype") or JOB in sight.shown else []
        taken = {JOB: [bool(types)] * 2, DISPATCH: _taken() if DISPATCH in sight.shown else []}
        # With a type there can be jobs, with an executor dispatches.
        used = [source for source in sight.shown if taken[source][0]]
        steps = [
            step
            for source in sight.shown
            for step, is_taken in zip(_FIRST_STEPS[source], taken[source], strict=True)
            if not is_taken and sight.may(step.permission)
        ]
        summed = [source for source in sight.sources if source in used]
        return cls(sight, types, used, steps, summed, closed_until() if summed else None)


def _present(seen: _Seen, periods: Mapping[str, float]) -> dict[str, Any]:
    """How everything stands now."""
    sight, types, now = seen.sight, seen.types, clock.now()
    sees_types = sight.may("jobs.view_jobtype")
    sees_workers = sight.may("jobs.view_worker")
    workers = registered() if sees_types or sees_workers else []
    processes = present.processes(sight, workers if sees_workers else None, periods, now)
    panels = []
    if JOB in seen.used:
        panels.append(present.jobs(types, now))
    if DISPATCH in seen.used:
        panels.append(present.dispatches(sight, now))
    if processes["panel"]:
        panels.append(processes["panel"])
    drawn: dict[str, Any] = {
        "now": now,
        "panels": panels,
        "notices": processes["notices"],
        "sweeps": processes["sweeps"],
        "is_unsummed": seen.summed and seen.until is None,
        "steps": [{"text": step.text, "url": reverse(step.url)} for step in seen.steps],
        "is_new": len(seen.used) < len(sight.shown),
    }
    if sees_types and types:
        drawn["notices"] = [*present.held_back(types, now), *drawn["notices"]]
        live = [each for each in workers if takes_jobs(each, now)]
        drawn |= {
            "unserved": unserved(types, live),
            "too_long": waiting_too_long(types),
        }
    return drawn


def _lately(seen: _Seen, part: str, until: datetime) -> dict[str, Any]:
    """A part of how the last hour went, that before `until`."""
    names = [each.name for each in seen.types]
    found = _LATELY[part](seen.sight, seen.summed, until, names)
    return {part: {"known": _mark(part, until), "found": found, "until": until}}


def _mark(part: str, until: datetime) -> str:
    return f"{part}-{second_of(until)}"


def known_of(until: datetime) -> list[str]:
    """What a reader knows who has all parts of the last hour before `until`."""
    return [_mark(part, until) for part in _LATELY]


def _taken() -> list[bool]:
    """Which of the first steps to dispatches somebody has taken."""
    executor, once, rotate, client = (
        f"EXISTS (SELECT 1 FROM {table(model)})"
        for model in (Executor, OnceTask, RotateTask, ApiClient)
    )
    [row] = fetch(f"SELECT {executor}, {once} OR {rotate}, {client}")
    return [bool(each) for each in row]


def refreshed(periods: Callable[[], Mapping[str, float]]) -> Callable[[HttpRequest], HttpResponse]:
    """The view of what a page replaces itself by.

    One part of it: a reader who lacks a part of the newest hour is told that alone, and asks again
    for the rest, so that no answer takes as long as all of it.
    """

    def view(request: HttpRequest) -> HttpResponse:
        seen, known = _Seen.by(request.user), request.GET.getlist(KNOWN)
        until = seen.until
        lacking = [part for part in _LATELY if until and _mark(part, until) not in known]
        if until and lacking:
            drawn = _lately(seen, lacking[0], until)
        else:
            drawn = _present(seen, periods())
        return render(request, "admin/overview/parts.html", {"overview": drawn})

    return view
