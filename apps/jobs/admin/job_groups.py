"""Actions on all jobs of a type that failed with the same error."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin import actions
from apps.common.readers import read_key
from apps.jobs.models import Job
from apps.jobs.rules import transitions

GROUP_URL = "admin:jobs_job_group"
STATUSES = {"retry": (transitions.FAILED,), "cancel": transitions.WAITING}
NOTHING = {
    "retry": _(
        "Nothing to retry: no job with this error is in state failed, except among the older ones."
    ),
    "cancel": _("Nothing to cancel: no job with this error is waiting."),
}
MAX_SEARCHED = 20_000


def group_view(request: HttpRequest, *, model_admin: Any, name: str) -> HttpResponseBase:
    """Confirm an action of JobAdmin for the newest jobs with `type` and `error_key`."""
    if name not in STATUSES:
        raise Http404(f"no action {name!r} for groups")
    if not model_admin.has_operate_permission(request):
        raise PermissionDenied
    visible = model_admin.get_queryset(request)
    found, is_all = _find_group(visible, request.GET, STATUSES[name])
    back = actions.local_url(request.GET.get("back", "")) or model_admin.changelist_url()
    if not found:
        model_admin.message_user(request, NOTHING[name], messages.WARNING)
        return HttpResponseRedirect(back)
    note = gettext(
        "These are all jobs with this error that are not among the older ones, whatever the "
        "period of the report."
    )
    if not is_all:
        note = gettext(
            "These are the newest jobs with this error. There may be more: repeat the action."
        )
    return actions.confirm_view(model_admin, request, name, found, back=back, note=note)


def _find_group(
    visible: QuerySet[Job], given: Any, statuses: tuple[str, ...]
) -> tuple[list[int], bool]:
    """The newest jobs of the group in these states, and whether they are all of them."""
    type_, key = read_key(given.get("type", "")), read_key(given.get("error_key", ""))
    if not type_ or not key:
        return [], True
    group = visible.filter(type=type_, error_key=key).order_by("-pk")
    searched = list(group.values_list("pk", "status")[:MAX_SEARCHED])
    matching = [pk for pk, status in searched if status in statuses]
    is_all = len(matching) <= actions.MAX_ROWS and len(searched) < MAX_SEARCHED
    return sorted(matching[: actions.MAX_ROWS]), is_all
