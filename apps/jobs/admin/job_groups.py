"""All jobs of a type that went wrong in the same way, taken up together."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext

from apps.common.admin import actions
from apps.common.admin.filters import read_key
from apps.jobs.admin.job_actions import JobActions
from apps.jobs.models import Job
from apps.jobs.rules import transitions

GROUP_URL = "admin:jobs_job_group"
# The states in which jobs of a group are taken up.
TAKEN = {"retry": (transitions.FAILED,), "cancel": transitions.WAITING}
MAX_LOOKED_AT = 20_000


class JobGroups(JobActions):
    """Before the base of the admin of jobs: `group/retry/` and `group/cancel/` ask for the reason
    to act on the jobs that `type` and `error_key` name, and the action then goes on as ever."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.group_view)
        return [path("group/<slug:name>/", view, name="jobs_job_group"), *super().get_urls()]

    def group_view(self, request: HttpRequest, name: str) -> HttpResponseBase:
        """The confirm page for the newest jobs of the group that the action is for."""
        if name not in TAKEN:
            raise Http404(f"no action {name!r} for groups")
        if not self.has_operate_permission(request):
            raise PermissionDenied
        found, is_all = _found(request.GET, TAKEN[name])
        back = actions.local_url(request.GET.get("back", "")) or self.changelist_url()
        if not found:
            text = gettext("No job of this group can be taken up like that now.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(back)
        note = gettext("These are all jobs that this error has left so, in any period.")
        if not is_all:
            note = gettext(
                "These are the newest jobs that this error has left so; there may be more. Repeat "
                "it for the rest."
            )
        return actions.confirm_view(self, request, name, found, back=back, note=note)


def _found(given: Any, statuses: tuple[str, ...]) -> tuple[list[int], bool]:
    """The newest jobs of the group in these states, and whether they are all of them."""
    type_, key = read_key(given.get("type", "")), read_key(given.get("error_key", ""))
    if not type_ or not key:
        return [], True
    group = Job.objects.filter(type=type_, error_key=key).order_by("-pk")
    looked = list(group.values_list("pk", "status")[:MAX_LOOKED_AT])
    fitting = [pk for pk, status in looked if status in statuses]
    is_all = len(fitting) <= actions.MAX_ROWS and len(looked) < MAX_LOOKED_AT
    return sorted(fitting[: actions.MAX_ROWS]), is_all
