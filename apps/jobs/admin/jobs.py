"""Jobs in the admin: the list, the page of a job, and what operators do to jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.bulk_links import links
from apps.common.admin.buttons import Button
from apps.common.admin.display import beside
from apps.common.admin.html import list_url
from apps.common.admin.list_head import MAX_COUNTED
from apps.common.admin.live import LiveAdmin
from apps.common.admin.pages import Panel, in_pairs
from apps.common.masking import redact
from apps.common.readers import read_number
from apps.jobs.admin import job_columns, job_panels, labels
from apps.jobs.admin.any_job import AnyJobAdmin, may
from apps.jobs.admin.filters import FILTERS, types_of_limits
from apps.jobs.admin.job_edit import EDIT_URL, ONLY_SAVE, edit_view, retry_view
from apps.jobs.admin.job_forms import NewJobForm
from apps.jobs.admin.job_groups import group_view
from apps.jobs.models import AnyJob, ArchivedJob, Job, bounds_of
from apps.jobs.rules import transitions, verbs
from apps.jobs.services import action_effects, control, counts
from apps.jobs.services.find import find
from apps.jobs.services.running import running_ids
from apps.jobs.services.submit import submit
from apps.jobs.services.types import open_types

# Actions for many jobs at once; the others are on the page of a job only.
IN_BULK = {"retry", "cancel", "run_now"}
# How often the head of a page renews itself: less often while the job is not due for a while.
LIVE_SECONDS, FAR_SECONDS = 2, 15
NEAR = timedelta(minutes=1)
# The parameters that the archive has, too.
OLDER_BY = ("q", "part_of", "type", "status", "key", "user", "error_key", "where")


def _is_cancellable(job: Job) -> bool:
    if transitions.is_legal("request_cancel", job.status):
        return not job.cancel_requested
    return transitions.is_legal("cancel", job.status)


def _cancelled_words(jobs: Sequence[Job]) -> str:
    """`50 jobs cancelled.`, or how many of them run and are asked to stop."""
    ended = sum(job.status == transitions.CANCELLED for job in jobs)
    asked = len(jobs) - ended
    sentences = (
        ngettext("%d job cancelled.", "%d jobs cancelled.", ended) % ended if ended else "",
        ngettext("%d running job asked to stop.", "%d running jobs asked to stop.", asked) % asked
        if asked
        else "",
    )
    return " ".join(filter(None, sentences))


class JobAdmin(LiveAdmin, AnyJobAdmin):
    """A page of the list reads as many rows as it shows, or up to `max_examined` of the
    primary key.

    While few rows match, indexes find types and keys (type, key, id), statuses (status, …) and
    errors (error_key, type, id); days are bounds of the id. Every other filter and the search for
    texts goes through the newest rows in steps.
    """

    other_model = ArchivedJob
    when_empty = _("Programs submit jobs over the API. You can add one here, too.")
    list_display = job_columns.USUAL
    list_columns = job_columns.ALL
    list_mobile = (
        ("status_and_error", "type_link", "shown_key"),
        ("number", "shown_attempts", "shown_age"),
    )
    export_columns = job_columns.EXPORTED
    list_filter = FILTERS
    list_before_template = "admin/includes/jobs_before.html"
    list_after_template = "admin/includes/older_in_archive.html"
    custom_urls = (
        ("<int:pk>/edit/", "jobs_job_edit", edit_view),
        ("<int:pk>/retry/", "jobs_job_retry_with", retry_view),
        ("group/<slug:name>/", "jobs_job_group", group_view),
    )
    actions = ("retry", "retry_on_host", "run_now", "cancel", "force_cancel", "mark_done")

    def has_override_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """May this person decide the end of a job against its worker?"""
        return self._has_own_permission(request, "override_job")

    # --- the list ---------------------------------------------------------------------------------
    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        return {
            **super().list_context(request, changelist),
            "too_long": labels.waiting_too_long(types_of_limits(request.user)),
            "bulk_links": links(changelist, "jobs", verbs.VERBS),
            "older_url": "" if changelist.has_further_rows else older_url(request.GET),
        }

    def first_rows(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """The newest of the running ones: those that wait may be millions."""
        return self.newest_first(rows, running_ids(MAX_COUNTED + 1))

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """The counts of all types that this person sees, or of the one type that the list is
        narrowed to."""
        bounds, limit = bounds_of(request.user), MAX_COUNTED + 1
        if others.keys() - {"type"} or bounds.users is not None:
            return {}
        types = bounds.types
        if name := others.get("type"):
            types = [name] if types is None or name in types else []
        if types is None:
            return counts.totals(limit)._asdict()
        return counts.totals_of([*types], limit)

    # --- the page ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            return super().get_fieldsets(request, obj)
        return [
            (None, {"fields": in_pairs(["type", "key", "is_unique", "unique_for", "user_id"])}),
            (
                _("When and how often"),
                {"fields": in_pairs(["run_at", "priority", "max_attempts"], alone=["run_at"])},
            ),
        ]

    def live_seconds(self, row: Job) -> float | None:
        if row.status in transitions.FINAL:
            return None
        is_far = row.status == transitions.SCHEDULED and row.run_at > clock.now() + NEAR
        return FAR_SECONDS if is_far else LIVE_SECONDS

    def buttons(self, request: HttpRequest, row: AnyJob) -> list[Button]:
        found = super().buttons(request, row)
        if transitions.is_legal("edit", row.status) and self.has_operate_permission(request):
            url = reverse(EDIT_URL, args=[row.pk])
            found.insert(0, Button(url=url, text=_("Edit"), icon="edit"))
        return found

    def aside(self, request: HttpRequest, row: Any) -> list[Panel]:
        if not self.has_operate_permission(request, row):
            return super().aside(request, row)
        retried = job_panels.if_retried(row)
        return [*super().aside(request, row), *([] if retried is None else [retried])]

    def panels(self, request: HttpRequest, row: Job) -> list[Panel]:
        waits = row.status in transitions.WAITING
        order_panel = [job_panels.order_panel(row)] if waits else []
        return [*order_panel, *super().panels(request, row)]

    # --- a new job --------------------------------------------------------------------------------
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        if not open_types(bounds_of(request.user).types).exists():
            text = gettext("There is no job type yet. Add one first.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        if request.method == "GET" and request.GET.get("again"):
            self.message_user(request, self._said_of(request, self._again(request)), messages.INFO)
        return super().add_view(request, form_url, {**(extra_context or {}), **ONLY_SAVE})

    def _again(self, request: HttpRequest) -> AnyJob | None:
        """The job that the form begins with, live or archived."""
        number = read_number(request.GET.get("again", ""))
        if number is None or not self.has_view_permission(request):
            return None
        return find(number, bounds=bounds_of(request.user))

    def _said_of(self, request: HttpRequest, job: AnyJob | None) -> str:
        """Say what the form has taken over of the job, and what not."""
        if job is None:
            return gettext("There is no such job. Fill the form in anew.")
        taken = gettext("Filled in from job %d.") % job.pk
        if not open_types(bounds_of(request.user).types).filter(name=job.type).exists():
            return beside(taken, gettext("Its type takes no jobs from here: choose another one."))
        if not self.has_payload_permission(request):
            return beside(taken, gettext("You may not see its context: write it anew."))
        if redact(job.context) != job.context:
            masked = gettext("Masked values stay as they are unless you write others.")
            return beside(taken, masked)
        return taken

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewJobForm
        return super().get_form(request, obj, change, **kwargs)

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        if obj is not None:
            return {}
        return {
            "bounds": bounds_of(request.user),
            "again": self._again(request),
            "shows_payload": self.has_payload_permission(request),
        }

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Job:
        given = form.cleaned_data
        submitted = submit(
            given["type"],
            form.params_form.params,
            key=given["key"],
            unique=given["is_unique"],
            unique_for=given["unique_for"],
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
        elif submitted.status in transitions.FINAL:
            text = gettext(
                "This job with the same key keeps it for a while. No other was submitted."
            )
            self.message_user(request, text, messages.WARNING)
        else:
            text = gettext("This job with the same key is still open. No other was submitted.")
            self.message_user(request, text, messages.WARNING)
        return Job.objects.get(pk=submitted.id)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return HttpResponseRedirect(self.change_url(obj.pk))

    # --- actions ----------------------------------------------------------------------------------
    # The arrow table says which actions a page offers; the services guard by the same table.
    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        return {name: action for name, action in found.items() if name in IN_BULK}

    @ReasonAction(
        description=_("Run now"),
        permission="operate",
        question=_("The jobs become due now. Waits for a time or after a failure end."),
        done=ngettext_lazy("%d job is due now.", "%d jobs are due now."),
        icon="bolt",
        offered=may("run_now"),
        is_harmless=True,
        verb=verbs.VERBS[verbs.RUN_NOW],
    )
    def run_now(self, row: Job, *, reason: str, actor: str) -> object:
        is_ready = row.status == transitions.READY
        if is_ready and row.order_key <= action_effects.place_now(row, clock.now()):
            return False
        return control.run_now(job=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Cancel"),
        permission="operate",
        question=_(
            "Waiting jobs end at once. Running jobs are asked to stop and end when their worker "
            "notices."
        ),
        done=_cancelled_words,
        icon="cancel",
        offered=_is_cancellable,
        verb=verbs.VERBS[verbs.CANCEL],
    )
    def cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.RUNNING and row.cancel_requested:
            return False
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Cancel by force"),
        permission="override",
        question=_(
            "The job is cancelled now, even if its worker goes on. A later result is kept in the "
            "history and changes nothing. The work itself may still have effects."
        ),
        done=ngettext_lazy("%d job cancelled.", "%d jobs cancelled."),
        icon="dangerous",
        is_dangerous=True,
        offered=may("force_cancel"),
    )
    def force_cancel(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.CANCELLED:
            return False
        return control.cancel(job=row, actor=actor, reason=reason, force=True)

    @ReasonAction(
        description=_("Mark done"),
        permission="override",
        question=_("The job counts as succeeded without running."),
        done=ngettext_lazy("%d job marked as done.", "%d jobs marked as done."),
        icon="task_alt",
        offered=may("mark_done"),
        verb=verbs.VERBS[verbs.MARK_DONE],
    )
    def mark_done(self, row: Job, *, reason: str, actor: str) -> object:
        if row.status == transitions.SUCCEEDED:
            return False
        return control.mark_done(job=row, actor=actor, reason=reason)


def older_url(asked: Mapping[str, str]) -> str:
    """The list of the archive, with the filters that both lists have."""
    kept = {name: asked[name] for name in OLDER_BY if asked.get(name)}
    return list_url(ArchivedJob, **kept)


admin.site.register(Job, JobAdmin)
