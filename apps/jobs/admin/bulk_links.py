"""The way from the list of jobs to a change of all jobs that it means."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.common.admin.bulk_links import links
from apps.jobs.rules import verbs

WORDS = {
    verbs.CANCEL: _("Cancel"),
    verbs.RETRY: _("Retry"),
    verbs.RUN_NOW: _("Run now"),
    verbs.PRIORITY: _("Change priority"),
    verbs.TIME: _("Change time"),
    verbs.MAX_ATTEMPTS: _("Change maximum attempts"),
    verbs.MOVE: _("Move to a host"),
    verbs.MARK_DONE: _("Mark done"),
}


def bulk_links(admin: Any, request: HttpRequest, changelist: Any) -> list[tuple[object, str]]:
    """The actions on all rows of the list that this person may start, each with its address."""
    if not admin.has_operate_permission(request):
        return []
    may_override = admin.has_override_permission(request)
    offered = {v: words for v, words in WORDS.items() if v != verbs.MARK_DONE or may_override}
    return links(changelist, "jobs", offered)
