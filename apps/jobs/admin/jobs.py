"""Jobs in the admin: the list, the page of a job, and what operators do to jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import ServiceModelAdmin, reason_action
from apps.common.admin.actions import Button
from apps.common.admin.base import Panel, in_pairs
from apps.common.admin.changelist import tidy_search
from apps.common.admin.filters import InstantFilter, read_key, read_number
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.timeline import Moment
from apps.jobs.admin import job_fields, job_panels, labels
from apps.jobs.admin.filters import (
    ClientFilter,
    CreatedFilter,
    ErrorFilter,
    JobKeyFilter,
    LaneFilter,
    StatusFilter,
    TypeFilter,
    UserFilter,
    type_names,
    types_of_limits,
)
from apps.jobs.admin.job_edit import EDIT_URL, ONLY_SAVE, edit_view
from apps.jobs.admin.job_forms import HostForm, NewJobForm
from apps.jobs.admin.job_groups import group_view
from apps.jobs.models import Job, JobType, bounds_of
from apps.jobs.rules import transitions
from apps.jobs.services import control
from apps.jobs.services.submit import submit
from apps.journal.admin.filters import HostFilter, WorkerFilter

# Actions for many jobs at once; the others are on the page of a job only.
IN_BULK = {"retry", "cancel", "run_now"}


def _may(arrow: str) -> Any:
    return lambda job: transitions.is_legal(arrow, job.status)


def _is_cancellable(job: Job) -> bool:
    if transitions.is_legal("request_cancel", job.status):
        return not job.cancel_requested
    return transitions.is_legal("cancel", job.status)


class JobAdmin(ServiceModelAdmin, KeysetAdmin):
    """A page of the list reads as many rows as it shows, or up to `max_examined` of the
    primary key.

    While few rows match, indexes find types and keys (type, key, id), statuses (status, …) and
    errors (error_key, type, id); days are bounds of the id. Every other filter and the search for
    texts goes through the newest rows in steps.
    """

    when_empty = _("Programs submit jobs over the API. You can add one here, too.")
    list_display = job_fields.COLUMNS
    list_mobile = (
        ("status_and_error", "type_link", "shown_key"),
        ("number", "shown_attempts", "shown_age"),
    )
    list_filter = (
        TypeFilter,
        StatusFilter,
        LaneFilter,
        JobKeyFilter,
        UserFilter,
        HostFilter,
        ErrorFilter,
        WorkerFilter,
        ClientFilter,
        CreatedFilter,
        InstantFilter,
    )
    # Contexts and results may be large.
    list_defer = ("context", "checkpoint", "result", "memo")
    list_before_template = "admin/includes/jobs_before.html"
    # Django shows the search box when there are any.
    search_fields = ("pk",)
    search_help_text = _("Number, key or user in full, or part of the last error")
    custom_urls = (
        ("<int:pk>/edit/", "jobs_job_edit", edit_view),
        ("group/<slug:name>/", "jobs_job_group", group_view),
    )
    actions = ("retry", "retry_on_host", "run_now", "cancel", "force_cancel", "mark_done")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never on this page; waiting jobs have a page for edits."""
        return False

    def has_override_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """May this person decide the end of a job against its worker?"""
        return self._has_own_permission(request, "override_job")

    def row_label(self, row: Job) -> str:
        return " · ".join(filter(None, [str(row.pk), row.type, row.key]))

    # --- the list ---------------------------------------------------------------------------------
    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        return {"too_long": labels.waiting_too_long(types_of_limits(request.user))}

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if term:
            return self._found_exactly(rows, term)
        types = [given["type"]] if given.get("type") else None
        if given.get("error_key"):
            alike = rows.filter(error_key=given["error_key"])
            return self.few(alike.filter(type=types[0]) if types else alike)
        if given.get("key"):
            return self.few(rows.filter(type__in=types or type_names(), key=given["key"]))
        found = rows.filter(type=types[0]) if types else rows
        indexed = (*transitions.OPEN, transitions.FAILED)
        if given.get("status") in indexed or connection.vendor == "mysql":
            # On SQLite indexes of the other states would only cost.
            found = found.filter(status=given["status"]) if given.get("status") else found
        return None if found is rows else self.few(found)

    def _found_exactly(self, rows: QuerySet[Any], term: str) -> Sequence[int] | None:
        number, key = read_number(term), read_key(term)
        if number is not None and rows.filter(pk=number).exists():
            return [number]
        if key is None:
            return None
        return self.few(rows.filter(type__in=type_names(), key=key)) or None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = tidy_search(search_term).strip()
        if not term:
            return queryset, False
        wanted = Q(memo__icontains=term)
        if read_key(term) is not None:
            wanted |= Q(key=term) | Q(user_id=term)
        if (number := read_number(term)) is not None:
            wanted |= Q(pk=number)
        return queryset.filter(wanted), False

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        failed = [row.pk for row in rows if row.status == transitions.FAILED]
        cut = Left("memo", 2 * job_fields.MAX_ERROR)
        errors = dict(Job.objects.filter(pk__in=failed).values_list("pk", cut)) if failed else {}
        for row in rows:
            row.now, row.error = now, errors.get(row.pk, "")

    # --- the page ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            shows_payload = self.has_payload_permission(request, obj)
            return job_fields.fieldsets(obj, shows_payload=shows_payload)
        return [
            (None, {"fields": in_pairs(["type", "key", "is_unique", "user_id"])}),
            (
                _("When and how often"),
                {"fields": in_pairs(["run_at", "priority", "max_attempts"], alone=["run_at"])},
            ),
        ]

    def buttons(self, request: HttpRequest, row: Job) -> list[Button]:
        found = super().buttons(request, row)
        if transitions.is_legal("edit", row.status) and self.has_operate_permission(request):
            url = reverse(EDIT_URL, args=[row.pk])
            found.insert(0, Button(url=url, text=_("Edit"), icon="edit", is_dangerous=False))
        return found

    def top_panels(self, request: HttpRequest, row: Job) -> list[Panel]:
        return job_panels.above(row)

    def panels(self, request: HttpRequest, row: Job) -> list[Panel]:
        waits = row.status in transitions.WAITING
        order_panel = [job_panels.order_panel(row)] if waits else []
        return [*order_panel, *super().panels(request, row)]

    def timeline(self, request: HttpRequest, row: Job) -> Sequence[Moment]:
        return job_panels.moments(row, shows_payload=self.has_payload_permission(request))

    # --- a new job --------------------------------------------------------------------------------
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        if not JobType.objects.visible_to(request.user).exists():
            text = gettext("There is no job type yet. Add one first.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        return super().add_view(request, form_url, {**(extra_context or {}), **ONLY_SAVE})

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewJobForm
        form: Any = super().get_form(request, obj, change, **kwargs)
        if obj is None:
            form.bounds = bounds_of(request.user)
        return form

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Job:
        given = form.cleaned_data
        submitted = submit(
            given["type"],
            form.params_form.params,
            key=given["key"],
            unique=given["is_unique"],
            user_id=given["user_id"],
            run_at=given["run_at"],
            priority=given["priority"],
            max_attempts=given["max_attempts"],
            by=actor,
            bounds=form.bounds,
        )
        if submitted.created:
            text = gettext("Job %d was submitted.") % submitted.id
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = gettext("This job with the same key is still open. No other was submitted.")
            self.message_user(request, text, messages.WARNING)
        return Job.objects.get(pk=submitted.id)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return HttpResponseRedirect(self.change_url(obj.pk))

    # --- actions ----------------------------------------------------------------------------------
    # Which ones a page offers is read from the arrow table; the services guard by the same table.
    def get_actions(self, request: HttpRequest) -> Any:
        found = super().get_actions(request)
        return {name: action for name, action in found.items() if name in IN_BULK}

    @reason_action(
        description=_("Retry"),
        permission="operate",
        question=_("The jobs run again at once, from the last checkpoint and with all attempts."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="replay",
        offered=_may("retry"),
    )
    def retry(self, row: Job, *, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Retry on host…"),
        permission="operate",
        question=_("The job runs again with all attempts, on this host only."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="dns",
        offered=_may("retry"),
        form=HostForm,
    )
    def retry_on_host(self, row: Job, *, host: str, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason, host=host)

    @reason_action(
        description=_("Run now"),
        permission="operate",
        question=_("The jobs become due now. Waits for a time or after a failure end."),
        done=ngettext_lazy("%d job is due now.", "%d jobs are due now."),
        icon="bolt",
        offered=_may("run_now"),
    )
    def run_now(self, row: Job, *, reason: str, actor: str) -> object:
        is_ready = row.status == transitions.READY
        if is_ready and row.order_key <= control.place_now(row, clock.now()):
            return False
        return control.run_now(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Cancel the job"),
        permission="operate",
        question=_(
            "Waiting jobs end at once. Running jobs are asked to stop and end when their worker "
            "notices."
        ),
        done=ngettext_lazy(
            "%d job cancelled or asked to stop.", "%d jobs cancelled or asked to stop."
        ),
        icon="cancel",
        is_dangerous=True,
        offered=_is_cancellable,
    )
    def cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.RUNNING and row.cancel_requested:
            return False
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Cancel by force"),
        permission="override",
        question=_(
            "The job is cancelled now, even if its worker goes on. A later result is kept in the "
            "history and changes nothing. The work itself may still have effects."
        ),
        done=ngettext_lazy("%d job cancelled.", "%d jobs cancelled."),
        icon="dangerous",
        is_dangerous=True,
        offered=_may("force_cancel"),
    )
    def force_cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason, force=True)

    @reason_action(
        description=_("Mark done"),
        permission="override",
        question=_("The job counts as succeeded without running. Only a retry undoes this."),
        done=ngettext_lazy("%d job marked as done.", "%d jobs marked as done."),
        icon="task_alt",
        is_dangerous=True,
        offered=_may("mark_done"),
    )
    def mark_done(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.SUCCEEDED:
            return False
        return control.mark_done(job=row, actor=actor, reason=reason)


admin.site.register(Job, JobAdmin)
