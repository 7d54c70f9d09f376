"""What the pages of once and rotate tasks share: list, form, page and actions of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin import ServiceModelAdmin
from apps.common.admin.base import Panel
from apps.common.admin.display import (
    column,
    json_field,
    quota_bar,
    shown_time,
    state_label,
    text_column,
)
from apps.common.admin.timeline import Moment
from apps.dispatch.admin import what_if
from apps.dispatch.admin.dispatches import STATE_COLOURS as DISPATCH_COLOURS
from apps.dispatch.admin.explain import why_not_of_task
from apps.dispatch.admin.periods import period_bar
from apps.dispatch.admin.task_actions import copy, delete_task, pause, resume
from apps.dispatch.admin.task_csv import TaskCsvPages
from apps.dispatch.admin.task_form import TaskForm
from apps.dispatch.models import Dispatch, Executor, Task
from apps.dispatch.services import tasks
from apps.journal.admin import latest_moments
from apps.journal.models import JournalEntry, Source

STATUS_COLOURS = {
    Task.Status.ACTIVE: "success",
    Task.Status.PAUSED: "warning",
    Task.Status.DELETED: "danger",
}
# Short labels for the list; the form explains each mode.
MODE_WORDS = {
    Task.Mode.SINGLE: _("single"),
    Task.Mode.MULTI: _("multi"),
    Task.Mode.BLOCKING: _("blocking"),
}
MAX_DISPATCHES = 10


class TaskAdmin(ServiceModelAdmin):
    """A subclass names its form and columns, and has the action `shift`.

    `when` are the fields that say when a task is due, and `when_read_only` the same ones for who
    may not change them.
    """

    form = TaskForm
    when: ClassVar[tuple[str, ...]] = ("start_at", "end_at")
    when_read_only: ClassVar[tuple[str, ...]] = when
    list_select_related = ("executor",)
    list_before_template = "admin/period_bar.html"
    list_is_counted = False
    list_max_show_all = 0
    csv_pages = TaskCsvPages
    list_defer = ("params",)
    search_fields = ("title",)
    search_help_text = _("Part of a title")
    ordering = ("-pk",)
    payload_fields = ("shown_params",)
    actions = (pause, resume, "shift", copy, delete_task)

    shown_status = state_label("status", STATUS_COLOURS, _("status"))
    shown_title = text_column("title", _("title"), ordering="title")
    shown_params = json_field("params", _("params"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        tasks.count_handed(rows)

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        return {**super().list_context(request, changelist), "period": period_bar(changelist)}

    def row_label(self, row: Any) -> str:
        return f"{row.title} · {row.executor.name}"

    @column(_("executor"))
    def executor_link(self, task: Task) -> SafeString:
        url = reverse("admin:dispatch_executor_change", args=[task.executor_id])
        return format_html('<a class="text-link" href="{}">{}</a>', url, task.executor.name)

    @column(_("mode"))
    def mode_word(self, task: Task) -> str:
        return str(MODE_WORDS[Task.Mode(task.mode)])

    @column(pgettext_lazy("how many", "handed out"))
    def quota(self, task: Any) -> SafeString:
        return quota_bar(task.handed, task.dispatch_times)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = [
            (None, {"fields": ["title", "executor", "status"]}),
            (_("When"), {"fields": [*self.when]}),
            (
                _("Quota and order"),
                {"fields": ["mode", "dispatch_times", "priority"]},
            ),
            (
                _("Failures and deadlines"),
                {"fields": ["lease_seconds", "on_failure", "on_expiry", "max_rounds"]},
            ),
            (_("What to do"), {"fields": ["template"]}),
        ]
        if obj is not None and not self.has_change_permission(request, obj):
            fieldsets[0][1]["fields"] = ["title", "executor_link", "shown_status"]
            fieldsets[1][1]["fields"] = [*self.when_read_only]
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
        is_over = obj is not None and obj.status == Task.Status.DELETED
        return not is_over and super().has_change_permission(request, obj)

    def has_mark_deleted_permission(self, request: HttpRequest) -> bool:
        return self._has_own_permission(request, f"delete_{self.opts.model_name}")

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        fields = {n: value for n, value in form.cleaned_data.items() if n in self.model.editable}
        fields["params"] = form.params_form.params
        if what_if.BUTTON in request.POST:
            form.what_if = what_if.of_new(request, self.model, fields, actor=actor)
            return None
        return tasks.create_task(self.model, **fields, actor=actor)

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        if what_if.BUTTON in request.POST:
            form.what_if = what_if.of_edit(request, row, form.changes, version=version, actor=actor)
            return None
        return tasks.update_task(task=row, changes=form.changes, version=version, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        context["offers_what_if"] = (
            self.has_add_permission(request)
            if row is None
            else self.has_change_permission(request, row)
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        tasks.count_handed([row])
        return [
            why_not_of_task(row),
            Panel(_("Handed out"), self._handed(row)),
            *super().panels(request, row),
        ]

    @staticmethod
    def _handed(task: Any) -> SafeString:
        """The quota, the latest dispatches, and where the others are."""
        dispatches = Dispatch.objects.filter(source=task.source, task=task.pk).order_by("-pk")
        latest = dispatches.prefetch_related("executor").defer("params", "result")[:MAX_DISPATCHES]
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
                quota_bar(task.handed, task.dispatch_times),
                _("Not handed out yet."),
            )
        return format_html(
            '<p>{}</p><table class="plain-table"><thead><tr><th>{}</th><th>{}</th><th>{}</th>'
            '<th>{}</th></tr></thead><tbody>{}</tbody></table><p><a class="text-link" '
            'href="{}?source={}&amp;task={}">{}</a></p>',
            quota_bar(task.handed, task.dispatch_times),
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

    def timeline(self, request: HttpRequest, row: Any) -> Sequence[Moment]:
        entries = JournalEntry.objects.timeline(Source.PLAN, row.pk)
        return latest_moments(
            entries.filter(type_or_task=f"{row.source}:{row.pk}"),
            shows_payload=self.has_payload_permission(request),
        )
