"""Once tasks in the admin: planned by a form whose params part is made from the template."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localdate
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import CountFreeMixin, VersionedModelAdmin, reason_action
from apps.common.admin.base import Panel
from apps.common.admin.display import (
    column,
    json_field,
    quota_bar,
    shown_time,
    state_label,
    text_column,
    time_column,
)
from apps.common.admin.filters import ChoiceFilter, DayFilter
from apps.common.admin.timeline import Moment
from apps.dispatch.admin.dispatches import STATE_COLOURS as DISPATCH_COLOURS
from apps.dispatch.admin.filters import TasksFor
from apps.dispatch.admin.once_task_form import OnceTaskForm
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.services import tasks
from apps.journal.admin import latest_moments
from apps.journal.models import JournalEntry, Source

STATUS_COLOURS = {
    OnceTask.Status.ACTIVE: "success",
    OnceTask.Status.PAUSED: "warning",
    OnceTask.Status.DELETED: "danger",
}
# The list has no room for what the form says of each.
MODE_WORDS = {
    OnceTask.Mode.SINGLE: _("single"),
    OnceTask.Mode.MULTI: _("multi"),
    OnceTask.Mode.BLOCKING: _("blocking"),
}
MOST_DISPATCHES = 10
RECENT = timedelta(days=7)


class StatusFilter(ChoiceFilter):
    """Deleted tasks are kept for their history and shown only when asked for."""

    title = _("status")
    parameter = "status"
    options = OnceTask.Status.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.used_parameters.get(self.parameter):
            return queryset.exclude(status=OnceTask.Status.DELETED)
        return super().queryset(request, queryset)


class ModeFilter(ChoiceFilter):
    title = _("mode")
    parameter = "mode"
    options = OnceTask.Mode.choices


class PeriodFilter(DayFilter):
    """By the day of the start; what started longer ago than a week is shown only when asked for."""

    title = _("start")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not any(self.used_parameters.get(name) for name in self.parameters):
            since = localdate(clock.now()) - RECENT
            self.used_parameters["from_day"] = since.isoformat()

    def bounded(self, rows: QuerySet[Any], side: str, instant: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"start_at__{side}": instant})


class OnceTaskAdmin(CountFreeMixin, VersionedModelAdmin):
    form = OnceTaskForm
    list_display = (
        "shown_title",
        "executor_link",
        "shown_status",
        "mode_word",
        "quota",
        "priority",
        "shown_start_at",
        "shown_end_at",
    )
    list_select_related = ("executor",)
    list_filter: ClassVar[Any] = (TasksFor, StatusFilter, ModeFilter, PeriodFilter)
    list_defer = ("params",)
    search_fields = ("title",)
    search_help_text = _("Part of a title")
    ordering = ("-pk",)
    payload_fields = ("shown_params",)
    actions = ("pause", "resume", "delete_task")

    shown_status = state_label("status", STATUS_COLOURS, _("status"))
    shown_title = text_column("title", _("title"), ordering="title")
    shown_start_at = time_column("start_at", _("start"), ordering="start_at")
    shown_end_at = time_column("end_at", _("end"), ordering="end_at")
    shown_params = json_field("params", _("params"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        handed = tasks.handed_of(list(rows))
        for row in rows:
            row.handed = handed[row.pk]

    @column(_("executor"))
    def executor_link(self, task: OnceTask) -> SafeString:
        url = reverse("admin:dispatch_executor_change", args=[task.executor_id])
        return format_html('<a class="text-link" href="{}">{}</a>', url, task.executor.name)

    @column(_("mode"))
    def mode_word(self, task: OnceTask) -> str:
        return str(MODE_WORDS[OnceTask.Mode(task.mode)])

    @column(pgettext_lazy("how many", "handed out"))
    def quota(self, task: Any) -> SafeString:
        return quota_bar(task.handed, task.dispatch_times)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = [
            (None, {"fields": ["title", "executor", "status"]}),
            (_("When"), {"fields": ["start_at", "end_at"]}),
            (
                _("How often, and who goes first"),
                {"fields": ["mode", "dispatch_times", "priority"]},
            ),
            (
                _("What happens when it goes wrong"),
                {"fields": ["lease_seconds", "on_failure", "on_expiry", "max_rounds"]},
            ),
            (_("What to do"), {"fields": ["template"]}),
        ]
        if obj is not None and not self.has_change_permission(request, obj):
            fieldsets[0][1]["fields"] = ["title", "executor_link", "shown_status"]
            if self.has_payload_permission(request, obj):
                fieldsets[-1][1]["fields"].append("shown_params")
        return fieldsets

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        asked = {
            "executors": Executor.objects.visible_to(request.user),
            "shows_params": self.has_payload_permission(request, obj),
        }
        return type(form.__name__, (form,), asked)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_over = obj is not None and obj.status == OnceTask.Status.DELETED
        return not is_over and super().has_change_permission(request, obj)

    def has_mark_deleted_permission(self, request: HttpRequest) -> bool:
        return self._has_own_permission(request, "delete_oncetask")

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> OnceTask:
        fields = {n: value for n, value in form.cleaned_data.items() if n in OnceTask.editable}
        return tasks.create_task(
            OnceTask, **{**fields, "params": form.params_form.params}, actor=actor
        )

    def update(
        self, request: HttpRequest, row: OnceTask, form: Any, *, version: int, actor: str
    ) -> OnceTask:
        return tasks.update_task(task=row, changes=form.changes, version=version, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def panels(self, request: HttpRequest, row: OnceTask) -> list[Panel]:
        handed = tasks.handed_of([row])[row.pk]
        return [
            Panel(_("Handed out"), self._handed(row, handed)),
            *super().panels(request, row),
        ]

    @staticmethod
    def _handed(task: OnceTask, handed: int) -> SafeString:
        """The quota, the latest dispatches, and where the others are."""
        dispatches = Dispatch.objects.filter(source=task.source, task=task.pk).order_by("-pk")
        latest = dispatches.select_related("executor").defer("params", "result")[:MOST_DISPATCHES]
        label = state_label("state", DISPATCH_COLOURS, "")
        rows = format_html_join(
            "",
            '<tr><td><a class="text-link" href="{}">{}</a></td><td>{}</td><td>{}</td>'
            "<td>{}</td></tr>",
            (
                (
                    reverse("admin:dispatch_dispatch_change", args=[dispatch.pk]),
                    dispatch.pk,
                    dispatch.executor.name,
                    label(None, dispatch),
                    shown_time(dispatch.dispatched_at),
                )
                for dispatch in latest
            ),
        )
        if not rows:
            return format_html(
                "<p>{}</p><p>{}</p>",
                quota_bar(handed, task.dispatch_times),
                _("Nobody has it yet."),
            )
        return format_html(
            '<p>{}</p><table class="plain-table"><thead><tr><th>{}</th><th>{}</th><th>{}</th>'
            '<th>{}</th></tr></thead><tbody>{}</tbody></table><p><a class="text-link" '
            'href="{}?source={}&amp;task={}">{}</a></p>',
            quota_bar(handed, task.dispatch_times),
            _("Number"),
            _("Executor"),
            _("State"),
            capfirst(gettext("handed out")),
            rows,
            reverse("admin:dispatch_dispatch_changelist"),
            task.source,
            task.pk,
            _("All dispatches of this task"),
        )

    def timeline(self, request: HttpRequest, row: OnceTask) -> Sequence[Moment]:
        entries = JournalEntry.objects.timeline(Source.PLAN, row.pk)
        return latest_moments(
            entries.filter(type_or_task=f"{row.source}:{row.pk}"),
            shows_payload=self.has_payload_permission(request),
        )

    # --- actions ----------------------------------------------------------------------------------
    @reason_action(
        description=_("Pause"),
        permission="change",
        question=_("They are kept and no longer handed out; open dispatches go on."),
        icon="pause_circle",
        offered=lambda task: task.status == OnceTask.Status.ACTIVE,
    )
    def pause(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return _set_status(row, OnceTask.Status.PAUSED, reason=reason, actor=actor)

    @reason_action(
        description=_("Resume"),
        permission="change",
        question=_("They are handed out again when they are due."),
        icon="play_circle",
        offered=lambda task: task.status == OnceTask.Status.PAUSED,
    )
    def resume(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return _set_status(row, OnceTask.Status.ACTIVE, reason=reason, actor=actor)

    @reason_action(
        description=_("Delete"),
        permission="mark_deleted",
        question=_("They are never handed out again and kept for their history. This is final."),
        icon="delete",
        is_dangerous=True,
        offered=lambda task: task.status != OnceTask.Status.DELETED,
    )
    def delete_task(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return tasks.delete_task(task=row, actor=actor, reason=reason)


def _set_status(row: OnceTask, status: str, *, reason: str, actor: str) -> bool:
    if row.status == status:
        return False
    tasks.update_task(task=row, changes={"status": status}, actor=actor, reason=reason)
    return True


admin.site.register(OnceTask, OnceTaskAdmin)
