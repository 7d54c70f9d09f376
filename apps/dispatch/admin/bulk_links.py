"""The way from the lists of tasks to a change of all that they mean."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.common.admin.bulk_links import links
from apps.dispatch.models import Task
from apps.dispatch.rules import task_verbs


def task_links(admin: Any, request: HttpRequest, changelist: Any) -> list[tuple[str, str]]:
    """The verbs for all rows of the list, each with its address; none while the list is narrowed to
    what is worked out from the time it is, which no run could find again."""
    status, ends = (changelist.given.get(name, "") for name in ("status", "ends"))
    if not admin.has_change_permission(request) or status not in ("", *Task.Status.values) or ends:
        return []
    # Deleted ones are listed only when asked for.
    usual = {} if status else {"status": "active,paused"}
    source = admin.model.source
    return links(changelist, f"{source}-tasks", task_verbs.VERBS[source], **usual)
