"""The audit as a page of the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import label
from apps.common.admin.pages import framed
from apps.common.audit import RECENT, Check
from apps.common.audit import audit as run_audit
from apps.common.leases import sweep_lease
from taskplatform.audit import CHECKS, broken_lines, may_audit

LEASE = "audit"
MAX_TIME = timedelta(minutes=10)


def audit(request: HttpRequest) -> HttpResponse:
    """The checks; on POST with their results. One audit at a time, because it reads every row."""
    user: User | AnonymousUser = request.user
    if not may_audit(user):
        raise PermissionDenied
    context: dict[str, Any] = {
        "title": _("Audit"),
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
        "broken": list(broken_lines(done)),
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
