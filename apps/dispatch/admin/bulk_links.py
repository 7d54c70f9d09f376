"""The way from the lists of dispatches and tasks to a change of all that they mean."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.common.admin.bulk_links import links
from apps.dispatch.rules import task_verbs, verbs
from apps.dispatch.rules.task_filter import STATUSES

WORDS = {
    verbs.RELEASE: _("Release"),
    verbs.EXPIRE: _("Expire"),
    verbs.CANCEL: _("Cancel"),
}


def bulk_links(admin: Any, request: HttpRequest, changelist: Any) -> list[tuple[object, str]]:
    """The actions on all rows of the list that this person may start, each with its address."""
    return links(changelist, "dispatches", WORDS) if admin.has_operate_permission(request) else []


TASK_WORDS = {
    task_verbs.PAUSE: _("Pause"),
    task_verbs.RESUME: _("Resume"),
    task_verbs.SHIFT: _("Shift in time"),
    task_verbs.PRIORITY: _("Change priority"),
    task_verbs.END: _("Set the end"),
    task_verbs.COPY: _("Copy"),
    task_verbs.DELETE: _("Delete"),
}


def task_links(admin: Any, request: HttpRequest, changelist: Any) -> list[tuple[object, str]]:
    """As `bulk_links` for a list of tasks; none while the list is narrowed to what is worked out
    from the time it is, which no run could find again."""
    status, ends = (changelist.given.get(name, "") for name in ("status", "ends"))
    if not admin.has_change_permission(request) or status not in ("", *STATUSES) or ends:
        return []
    # Deleted ones are listed only when asked for.
    usual = {} if status else {"status": "active,paused"}
    may = {
        task_verbs.COPY: admin.has_add_permission(request),
        task_verbs.DELETE: admin.has_mark_deleted_permission(request),
    }
    offered = {verb: words for verb, words in TASK_WORDS.items() if may.get(verb, True)}
    return links(changelist, f"{admin.model.source}-tasks", offered, **usual)
