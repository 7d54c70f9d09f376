"""The page that edits a waiting job; the page of a job itself only shows it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext

from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.jobs.admin.job_forms import JobEditForm, JobRetryForm
from apps.jobs.admin.rights import RightsOfJobs
from apps.jobs.models import Job
from apps.jobs.rules import transitions, verbs
from apps.jobs.services import control
from apps.journal.models import JournalEntry, Source

EDIT_URL = "admin:jobs_job_edit"
ONLY_SAVE = {"show_save_and_continue": False, "show_save_and_add_another": False}


def edit_view(request: HttpRequest, *, model_admin: Any, pk: int) -> Any:
    """The page that edits a waiting job."""
    row = model_admin.existing(request, pk, may="operate")
    if request.method != "POST" and not transitions.is_legal("edit", row.status):
        text = gettext("Job %(number)d is %(status)s. Only waiting jobs can be edited.")
        values = {"number": row.pk, "status": row.get_status_display()}
        model_admin.message_user(request, text % values, messages.WARNING)
        return HttpResponseRedirect(model_admin.change_url(row.pk))
    page = JobEditAdmin(Job, model_admin.admin_site)
    return page.changeform_view(request, str(pk), "", {"title": gettext("Edit"), **ONLY_SAVE})


def retry_view(request: HttpRequest, *, model_admin: Any, pk: int) -> Any:
    """The page that runs a job again, live or archived, with another context."""
    model_admin.existing(request, pk)
    if not may_retry_with(model_admin, request):
        raise PermissionDenied
    page = JobRetryAdmin(model_admin.model, model_admin.admin_site)
    title = gettext("Retry with another context")
    return page.changeform_view(request, str(pk), "", {"title": title, **ONLY_SAVE})


def may_retry_with(model_admin: Any, request: HttpRequest) -> bool:
    """Whether the person may retry with another context: who changes it has to see it."""
    return bool(
        model_admin.has_operate_permission(request) and model_admin.has_payload_permission(request)
    )


class JobEditAdmin(ServiceModelAdmin):
    """The page of an edit; it is not registered: `edit_view` shows its form."""

    form: type[ServiceForm] = JobEditForm
    undone_by = verbs.PRIORITY

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_operate_permission(request, obj)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        context = ["context"] if self.has_payload_permission(request, obj) else []
        fields = ["run_at", "priority", "max_attempts", "affinity_host", *context, "reason"]
        return [(None, {"fields": fields})]

    def changed_by(self, row: Job) -> str:
        """The worker that holds it, else the actor of its latest journal entry."""
        if row.status == transitions.RUNNING:
            return row.worker or gettext("A worker")
        entries = JournalEntry.objects.timeline(Source.JOB, row.pk).order_by("-id")
        return entries.values_list("actor", flat=True).first() or gettext("Somebody else")

    def update(self, request: HttpRequest, row: Job, form: Any, *, version: int, actor: str) -> Job:
        if not form.changes:
            self.message_user(request, gettext("Nothing was changed."), messages.SUCCESS)
        return control.edit(
            job=row,
            version=version,
            changes=form.changes,
            actor=actor,
            reason=form.cleaned_data["reason"],
        )

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[obj.pk]))


class JobRetryAdmin(RightsOfJobs, JobEditAdmin):
    """Not registered: `retry_view` shows its form."""

    form = JobRetryForm
    # The journal and its act are those of a retry, not of an edit.
    undone_by = ""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(None, {"fields": ["context", "reason"]})]

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Job:
        given = form.cleaned_data
        job = control.retry(job=row, actor=actor, reason=given["reason"], context=given["context"])
        self.message_user(request, gettext("Job %d runs again.") % row.pk, messages.SUCCESS)
        return job
