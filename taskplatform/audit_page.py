"""The audit as a page of the admin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.alerts.models import Alert, Delivery
from apps.bulk.models import BulkRun
from apps.common.admin.display import label
from apps.common.admin.html import link, page_url
from apps.common.admin.pages import framed
from apps.common.audit import RECENT, Breach, Check
from apps.common.audit import audit as run_audit
from apps.common.leases import sweep_lease
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.flows.models import FlowRun, FlowStep
from apps.jobs.models import Job
from taskplatform.audit import CHECKS, broken_lines, may_audit

LEASE = "audit"
# Whose page shows a row, by what breaches call it.
_PAGES: dict[str, type[models.Model]] = {
    "alert": Alert,
    "bulk run": BulkRun,
    "delivery": Delivery,
    "dispatch": Dispatch,
    "executor": Executor,
    "flow run": FlowRun,
    "flow step": FlowStep,
    "job": Job,
    "quota once:": OnceTask,
    "quota rotate:": RotateTask,
}
_SUBJECT = re.compile(r"(\D+?) ?(\d+)(?:/\d+)?")
MAX_TIME = timedelta(minutes=10)


def audit(request: HttpRequest) -> HttpResponse:
    """The checks; on POST with their results. One audit at a time, because it reads every row."""
    user: User | AnonymousUser = request.user
    if not may_audit(user):
        raise PermissionDenied
    context: dict[str, Any] = {
        "title": _("Consistency"),
        "recent": f"{RECENT:,}",
        "lines": [_waiting(check) for check in CHECKS],
    }
    if request.method == "POST":
        with sweep_lease(LEASE, at_most=MAX_TIME) as mine:
            context |= _result() if mine else {"is_running": True}
    return framed(request, "admin/audit.html", **context)


def _waiting(check: Check) -> dict[str, Any]:
    return {"title": check.title, "invariants": ", ".join(check.invariants)}


def _result() -> dict[str, Any]:
    done = run_audit(CHECKS)
    return {
        "is_done": True,
        "is_clean": not any(each.breaches for each in done),
        "seconds": sum(each.seconds for each in done),
        "broken": _linked([*broken_lines(done)]),
        "lines": [
            {
                **_waiting(each.check),
                "rows": f"{each.rows:,}",
                "seconds": each.seconds,
                "state": label(_("failed"), "danger")
                if each.breaches
                else label(_("passed"), "success"),
            }
            for each in done
        ],
    }


def _linked(lines: Sequence[Breach | str]) -> list[str | SafeString]:
    """The lines, the subject of each with a link to its page; a step of a flow has that of its
    run."""
    subjects = [
        _SUBJECT.fullmatch(line.subject) if isinstance(line, Breach) else None for line in lines
    ]
    steps = {int(found[2]) for found in subjects if found and found[1] == "flow step"}
    runs = dict(FlowStep.objects.filter(pk__in=steps).values_list("pk", "run"))
    told: list[str | SafeString] = []
    for line, found in zip(lines, subjects, strict=True):
        if isinstance(line, str) or found is None or found[1] not in _PAGES:
            told.append(str(line))
            continue
        of, number = _PAGES[found[1]], int(found[2])
        if of is FlowStep:
            of, number = FlowRun, runs.get(number, 0)
        subject = link(page_url(of, number), line.subject)
        told.append(line.told(format_html, subject))
    return told
