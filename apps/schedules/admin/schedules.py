"""Schedules in the admin: the list, the page and form of one, and what operators do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import ids
from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import (
    choice_label,
    column,
    due_list,
    label,
    rule_words,
    short_time,
    shown_rule,
    text_column,
    zoned_time_column,
)
from apps.common.admin.filters import FormFilter, list_filters
from apps.common.admin.html import link, list_url, page_url
from apps.common.admin.json_fields import json_field
from apps.common.admin.pages import Panel
from apps.common.admin.service import ServiceModelAdmin
from apps.common.readers import read_number
from apps.dispatch.admin.for_whom import for_whom
from apps.dispatch.admin.rule_form import ROWS
from apps.jobs.admin.filters import TypeFilter
from apps.jobs.admin.job_fields import schema_of_type
from apps.jobs.models import JobType, bounds_of
from apps.journal.admin import RecordedAdmin
from apps.schedules.admin.panels import MAX_RUNS, jobs_of, outcome, runs_table
from apps.schedules.admin.schedule_form import ScheduleForm
from apps.schedules.models import Schedule
from apps.schedules.services import schedules
from apps.schedules.services.filters import ScheduleFilters

NEXT_RUNS = 10
_COLOURS = {Schedule.Status.ACTIVE: "success", Schedule.Status.PAUSED: "warning"}


def _is_kept(schedule: Schedule) -> bool:
    return schedule.status != Schedule.Status.DELETED


class StatusFilter(FormFilter):
    """The filter by status. Deleted schedules are kept for their history and shown only when asked
    for."""

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if not self.used_parameters.get("status"):
            return queryset.not_deleted()
        return super().queryset(request, queryset)


class TypeOfJobs(TypeFilter):
    """The filter by type of the jobs, also by a deleted type: its schedules stay, and must be
    found."""

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        return super(TypeFilter, self).narrowed(rows, given)


class ScheduleAdmin(RecordedAdmin, ServiceModelAdmin):
    form = ScheduleForm
    add_form_template = change_form_template = "admin/schedule_form.html"
    when_empty = _("A schedule makes a job of a type at each time of its rule. Add one here.")
    list_display = (
        "shown_title",
        "type_link",
        "shown_status",
        "rule_words",
        "next_run",
        "last_run",
    )
    list_mobile = (("shown_status", "shown_title"), ("type_link", "next_run"))
    list_filter = list_filters(ScheduleFilters, type=TypeOfJobs, status=StatusFilter)
    list_tabs = "status"
    list_is_counted = False
    list_max_show_all = 0
    list_defer = ("context",)
    search_fields = ("title",)
    search_help_text = _("Part of a title")
    ordering = ("-pk",)
    payload_fields = ("shown_context",)
    actions = ("run_now", "pause", "resume", "copy", "delete")

    shown_title = text_column("title", _("title"), ordering="title")
    shown_rule, rule_words = shown_rule, rule_words
    next_run = zoned_time_column("next_at", _("next run"), ordering="next_at")
    shown_start_at = zoned_time_column("start_at", _("start"))
    shown_end_at = zoned_time_column("end_at", _("end"))
    shown_context = json_field("context", _("context"), lambda row: schema_of_type(row.job_type))

    def has_mark_deleted_permission(self, request: HttpRequest) -> bool:
        return self._has_own_permission(request, f"delete_{self.opts.model_name}")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_over = obj is not None and not _is_kept(obj)
        return not is_over and super().has_change_permission(request, obj)

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        jobs = jobs_of((row.last_job for row in rows), bounds_of(request.user))
        for row in rows:
            row.jobs = jobs

    @column(_("job type"), ordering="job_type")
    def type_link(self, schedule: Schedule) -> SafeString | str:
        return link(list_url(JobType, q=schedule.job_type), schedule.job_type)

    @column(_("status"))
    def shown_status(self, schedule: Schedule) -> SafeString:
        if schedule.status == Schedule.Status.ACTIVE and schedule.next_at is None:
            return label(gettext("Ended"))
        return choice_label(Schedule.Status, schedule.status, _COLOURS, "danger")

    @column(_("last run"))
    def last_run(self, schedule: Any) -> SafeString | str:
        # The number would be cut at the edge of a narrow screen.
        return outcome(
            schedule.last_job, schedule.jobs, named=lambda made: short_time(ids.made_at(made))
        )

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            own = ["title", ("type_link", "shown_status")]
            when = ["shown_rule", ("shown_start_at", "shown_end_at"), "overlap"]
            jobs: list[Any] = [("priority", "max_attempts"), "shown_context"]
            if not self.has_payload_permission(request, obj):
                jobs.remove("shown_context")
            return [
                (None, {"fields": own}),
                (_("When"), {"fields": when}),
                (_("Its jobs"), {"fields": jobs}),
            ]
        # The page has its own places for them.
        return [(None, {"fields": [*self.form.Meta.fields, *ROWS]})]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {
            "bounds": bounds_of(request.user),
            "shows_context": self.has_payload_permission(request, obj),
        }

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        """The page of the schedule; those of the platform's own types have other ones."""
        number = read_number(object_id)
        for model in self.model.__subclasses__():
            if number is not None and model.objects.filter(pk=number).exists():
                return HttpResponseRedirect(page_url(model, number))
        return super().change_view(request, object_id, *args, **kwargs)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        if not JobType.objects.visible_to(request.user).exists():
            text = gettext("There is no job type yet. Add one first.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(self.changelist_url())
        return super().add_view(request, form_url, extra_context)

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Schedule:
        fields = {**form.given(), "context": form.params_form.params}
        return schedules.create_schedule(**fields, actor=actor, bounds=form.bounds)

    def update(
        self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str
    ) -> Schedule:
        return schedules.update_schedule(
            schedule=row, changes=form.changes, version=version, actor=actor, bounds=form.bounds
        )

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        return {"top_panels": for_whom(request, "schedules_schedule")} if row is None else {}

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        bounds = bounds_of(request.user)
        trouble = label(row.get_trouble_display(), "danger") if row.trouble else ""
        head = format_html(
            "<p>{} {} {}</p><p>{}: {}</p>",
            self.shown_status(row),
            trouble,
            self.shown_rule(row),
            capfirst(gettext("last run")),
            outcome(row.last_job, jobs_of([row.last_job], bounds)),
        )
        if self.has_change_permission(request, row):
            # The form has the next ones, by what is filled in.
            return [Panel("", head)]
        coming = due_list(row.next_due(NEXT_RUNS), row.recurrence.zone)
        return [Panel("", head), Panel(_("Next runs"), coming)]

    def panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        table = runs_table(row, bounds_of(request.user), self.made_by)
        title = gettext("Last %(count)d runs") % {"count": MAX_RUNS}
        return [Panel(title, table), *super().panels(request, row)]

    def made_by(self, jobs: Sequence[int]) -> Mapping[int, SafeString]:
        """What is shown in place of some of these jobs, by their numbers."""
        return {}

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Run now"),
        permission="change",
        question=_("Each makes one job at once, beside those of its rule."),
        done=ngettext_lazy("%d job made.", "%d jobs made."),
        icon="bolt",
        offered=_is_kept,
        is_harmless=True,
    )
    def run_now(self, row: Schedule, *, reason: str, actor: str) -> object:
        return schedules.run_now(schedule=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Pause"),
        permission="change",
        question=_("While paused, they make nothing. What is made already goes on."),
        done=ngettext_lazy("%d paused.", "%d paused."),
        icon="pause_circle",
        offered=lambda row: row.status == Schedule.Status.ACTIVE,
    )
    def pause(self, row: Schedule, *, reason: str, actor: str) -> object:
        return schedules.pause(schedule=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Resume"),
        permission="change",
        question=_("They go on from now, and make nothing for the time of the pause."),
        done=ngettext_lazy("%d resumed.", "%d resumed."),
        icon="play_circle",
        offered=lambda row: row.status == Schedule.Status.PAUSED,
        is_harmless=True,
    )
    def resume(self, row: Schedule, *, reason: str, actor: str) -> object:
        return schedules.resume(schedule=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Copy"),
        permission="add",
        question=_("The copies are paused. Change them, then resume them."),
        done=ngettext_lazy("%d paused copy made.", "%d paused copies made."),
        icon="content_copy",
        offered=_is_kept,
    )
    def copy(self, row: Schedule, *, reason: str, actor: str) -> object:
        return schedules.copy(schedule=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Delete"),
        permission="mark_deleted",
        question=_("They make no more jobs and are kept for their history. This is final."),
        done=ngettext_lazy("%d schedule deleted.", "%d schedules deleted."),
        icon="delete",
        is_dangerous=True,
        offered=_is_kept,
    )
    def delete(self, row: Schedule, *, reason: str, actor: str) -> object:
        return schedules.delete_schedule(schedule=row, actor=actor, reason=reason)


admin.site.register(Schedule, ScheduleAdmin)
