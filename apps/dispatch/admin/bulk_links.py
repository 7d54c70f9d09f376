"""The links from the lists of tasks to bulk runs on all tasks that a list means."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.common.admin.bulk_links import links
from apps.dispatch.models import Task
from apps.dispatch.rules import task_verbs


def task_links(admin: Any, request: HttpRequest, changelist: Any) -> list[tuple[str, str]]:
    """The verbs for all rows of the list, each with its address; none while the list is narrowed by
    a state that depends on the present time, which a bulk run could not find again."""
    status, ends = (changelist.given.get(name, "") for name in ("status", "ends"))
    if not admin.has_change_permission(request) or status not in ("", *Task.Status.values) or ends:
        return []
    # Deleted ones are listed only when asked for.
    usual = {} if status else {"status": "active,paused"}
    source = admin.model.source
    return links(changelist, f"{source}-tasks", task_verbs.VERBS[source], **usual)
