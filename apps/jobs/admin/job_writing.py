"""Making and editing jobs in the admin: two pages beside the one that only shows."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin import VersionedModelAdmin
from apps.common.admin.actions import Button
from apps.jobs.admin.job_forms import JobEditForm, NewJobForm
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions
from apps.jobs.services import control
from apps.jobs.services.submit import submit
from apps.journal.models import JournalEntry, Source

EDIT_URL = "admin:jobs_job_edit"
ONLY_SAVE = {"show_save_and_continue": False, "show_save_and_add_another": False}


class JobWriting(VersionedModelAdmin):
    """Before the base of the admin of jobs: `add/` submits, `<number>/edit/` changes what waits."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.edit_view)
        return [path("<int:pk>/edit/", view, name="jobs_job_edit"), *super().get_urls()]

    def edit_view(self, request: HttpRequest, pk: int) -> Any:
        row = self.get_object(request, str(pk))
        if row is None:
            self.message_user(request, gettext("There is no such row."), messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        if not self.has_operate_permission(request, row):
            raise PermissionDenied
        if request.method != "POST" and not transitions.is_legal("edit", row.status):
            text = gettext("Job %(number)d is %(status)s; only waiting jobs can be edited.")
            told = text % {"number": row.pk, "status": row.get_status_display()}
            self.message_user(request, told, messages.WARNING)
            return HttpResponseRedirect(self.change_url(row.pk))
        request.is_editing = True  # type: ignore[attr-defined]
        context = {
            "title": gettext("Edit"),
            **ONLY_SAVE,
        }
        return self.changeform_view(request, str(pk), "", context)

    # --- who and what -----------------------------------------------------------------------------
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_editing(request) and self.has_operate_permission(request, obj)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [
                (None, {"fields": ["type", "key", "is_unique", "user_id"]}),
                (_("When and how often"), {"fields": ["run_at", "priority", "max_attempts"]}),
            ]
        if _is_editing(request):
            fields = ["run_at", "priority", "max_attempts", "affinity_host"]
            shown = ["context"] if self.has_payload_permission(request, obj) else []
            return [(None, {"fields": [*fields, *shown, "reason"]})]
        return super().get_fieldsets(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            return super().get_form(request, obj, change, **kwargs, form=NewJobForm)
        if not _is_editing(request):
            return super().get_form(request, obj, change, **kwargs)
        form = super().get_form(request, obj, change, **kwargs, form=JobEditForm)
        shows = {"shows_context": self.has_payload_permission(request, obj)}
        return type(form.__name__, (form,), shows)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        page = super().render_change_form(request, context, *args, **kwargs)
        if row is None or not hasattr(page, "context_data"):
            return page
        told: Any = page.context_data
        if _is_editing(request):
            told["object_buttons"], told["panels"], told["top_panels"] = [], [], []
        elif transitions.is_legal("edit", row.status) and self.has_operate_permission(request):
            url = reverse(EDIT_URL, args=[row.pk])
            edit = Button(url=url, text=_("Edit"), icon="edit", is_dangerous=False)
            told["object_buttons"] = [edit, *told["object_buttons"]]
        return page

    # --- a new one --------------------------------------------------------------------------------
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        if not JobType.objects.exists():
            text = gettext("There is no job type yet; make one first.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        return super().add_view(request, form_url, {**(extra_context or {}), **ONLY_SAVE})

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Job:
        given = form.cleaned_data
        form.submitted = submit(
            given["type"],
            form.params_form.params,
            key=given["key"],
            unique=given["is_unique"],
            user_id=given["user_id"],
            run_at=given["run_at"],
            priority=given["priority"],
            max_attempts=given["max_attempts"],
            by=actor,
        )
        request.is_twin = not form.submitted.created  # type: ignore[attr-defined]
        return Job.objects.get(pk=form.submitted.id)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        if getattr(request, "is_twin", False):
            text = gettext("A job with this key is open already: this one. Nothing was made.")
            self.message_user(request, text, messages.WARNING)
        else:
            text = gettext("Job %d was submitted.") % obj.pk
            self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.change_url(obj.pk))

    # --- an edit ----------------------------------------------------------------------------------
    def changed_by(self, row: Job) -> str:
        """The actor of its latest entry; a worker's hold leaves none."""
        entries = JournalEntry.objects.timeline(Source.JOB, row.pk).order_by("-id")
        latest = entries.values_list("actor", flat=True).first()
        if row.status == transitions.RUNNING:
            return row.worker or gettext("A worker")
        return latest or gettext("Somebody else")

    def update(self, request: HttpRequest, row: Job, form: Any, *, version: int, actor: str) -> Job:
        return control.edit(
            job=row,
            version=version,
            changes=form.changes,
            actor=actor,
            reason=form.cleaned_data["reason"],
        )

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        text = ngettext("%d row done.", "%d rows done.", 1) % 1
        self.message_user(request, f"{gettext('Edit')}: {text}", messages.SUCCESS)
        return HttpResponseRedirect(self.change_url(obj.pk))


def _is_editing(request: HttpRequest) -> bool:
    return bool(getattr(request, "is_editing", False))
