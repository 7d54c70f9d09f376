"""The common base of the pages of once and rotate tasks: list, form, page and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import CustomUrls
from apps.common.admin.display import (
    choice_label,
    choice_word,
    column,
    quota_bar,
    short_time,
    state_label,
    text_column,
    time_column,
)
from apps.common.admin.html import link, list_url, page_link, page_url, table
from apps.common.admin.json_fields import json_field
from apps.common.admin.pages import Panel, in_pairs
from apps.common.admin.service import ServiceModelAdmin
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.common.readers import read_number
from apps.dispatch.admin import task_meaning, what_if
from apps.dispatch.admin.bulk_links import task_links
from apps.dispatch.admin.copies import (
    complete_draft,
    copied_task,
    copy_buttons,
    values_of_copy,
)
from apps.dispatch.admin.dispatch_states import STATE_COLOURS as DISPATCH_COLOURS
from apps.dispatch.admin.explain import why_not_of_task
from apps.dispatch.admin.for_whom import for_whom
from apps.dispatch.admin.people import person, person_column
from apps.dispatch.admin.periods import period_bar
from apps.dispatch.admin.task_actions import copy, delete_task, pause, resume
from apps.dispatch.admin.task_csv import TaskCsvPages
from apps.dispatch.admin.task_form import KINDS, TaskForm
from apps.dispatch.admin.task_head import ends_of
from apps.dispatch.models import TASK_MODELS, ArchivedTask, Dispatch, Executor, Task
from apps.dispatch.rules import task_verbs
from apps.dispatch.services import availability, tasks
from apps.journal.admin import RecordedAdmin

STATE_COLOURS = {
    Task.State.WAITING: "info",
    Task.State.OPEN: "success",
    Task.State.OVERDUE: "warning",
    Task.State.FULL: "primary",
    Task.State.OVER: "danger",
    Task.State.PAUSED: "warning",
    Task.State.DELETED: "danger",
}
# Short labels for the list; the form explains each mode.
MODE_WORDS: dict[str, Any] = {
    Task.Mode.SINGLE: _("one person"),
    Task.Mode.MULTI: _("each at most once"),
    Task.Mode.BLOCKING: _("the same again, too"),
}
MAX_DISPATCHES = 5


def _reach(task: Task) -> SafeString | str:
    """The instant until which the task can be had, or could."""
    due_at, until, state = (
        task.availability.due_at,
        task.availability.until,
        task.availability.state,
    )
    if due_at is None or until is None:
        return gettext("It has no occurrence any more.")
    if state == Task.State.OVER:
        words = gettext("Due {due}; it could be had until {until}, and its quota was not used up.")
    elif until <= clock.now():
        words = gettext("Due {due}; it could be had until {until}.")
    else:
        words = gettext("Due {due}; it can be had until {until}.")
    return format_html(words, due=short_time(due_at), until=short_time(until))


class TaskAdmin(TwoTablesAdmin, RecordedAdmin, ServiceModelAdmin):
    """The pages of one kind of task. A subclass names its form and columns, and has the action
    `shift`.

    `when_read_only` are the fields that say when a task is due, for people who may not change them.
    """

    folds_history = True

    form = TaskForm
    undone_by = task_verbs.PRIORITY
    add_form_template = change_form_template = "admin/task_form.html"
    when_read_only: ClassVar[tuple[str, ...]] = ("shown_start_at", "shown_end_at")
    list_select_related = ("executor",)
    list_tabs = "status"
    list_before_template = "admin/period_bar.html"
    list_is_counted = False
    list_max_show_all = 0
    csv_pages = TaskCsvPages
    list_defer = ("params",)
    search_fields = ("title",)
    search_help_text = _("Part of a title, or params.path:value")
    ordering = ("-pk",)
    payload_fields = ("shown_params",)
    actions = (pause, resume, "shift", copy, delete_task)

    shown_title = text_column("title", _("title"), ordering="title")
    shown_start_at = time_column("start_at", _("start"), ordering="start_at")
    shown_end_at = time_column("end_at", _("end"), ordering="end_at")
    shown_params = json_field(
        "params", _("params"), lambda task: task.template and task.template.schema
    )

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        availability.read_availability(rows)

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        own = {
            "period": period_bar(changelist),
            "bulk_links": task_links(self, request, changelist),
        }
        return {**super().list_context(request, changelist), **own}

    def elsewhere(self, object_id: str) -> HttpResponse | None:
        """The way to its page in the archive."""
        number = read_number(object_id)
        if number is None:
            return None
        rows = ArchivedTask.objects.filter(source=str(self.model.source), task=number)
        pk = rows.values_list("pk", flat=True).first()
        return None if pk is None else HttpResponseRedirect(page_url(ArchivedTask, pk))

    def row_label(self, row: Any) -> str:
        return f"{row.title} · {row.executor.shown}"

    executor_link = person_column

    @column(_("mode"))
    def mode_word(self, task: Task) -> str:
        return str(MODE_WORDS.get(task.mode) or choice_word(Task.Mode, task.mode))

    @column(_("state"))
    def shown_state(self, task: Task) -> SafeString:
        return choice_label(Task.State, task.availability.state, STATE_COLOURS)

    @column(pgettext_lazy("how many", "handed out"))
    def quota(self, task: Task) -> SafeString:
        return quota_bar(
            task.availability.handed,
            task.availability.quota,
            of_members=task.dispatch_times is None,
        )

    @column(pgettext_lazy("of a task", "until"))
    def until(self, task: Task) -> SafeString | str:
        until = task.availability.until
        return "–" if until is None else short_time(until)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            # The page has its own places for them.
            return [(None, {"fields": [*self.form.Meta.fields, "executor", "template"]})]
        fieldsets: list[Any] = [
            (None, {"fields": ["title", ("executor_link", "shown_state")]}),
            (_("When"), {"fields": in_pairs(self.when_read_only)}),
            (_("Quota and order"), {"fields": ["mode", ("dispatch_times", "priority")]}),
            (
                _("Failures and deadlines"),
                {"fields": [("lease_seconds", "max_rounds"), "on_failure", "on_expiry"]},
            ),
            (_("What to do"), {"fields": ["template"]}),
        ]
        if self.has_payload_permission(request, obj):
            fieldsets[-1][1]["fields"].append("shown_params")
        return fieldsets

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {
            "executors": Executor.objects.visible_to(request.user),
            "shows_params": self.has_payload_permission(request, obj),
            "kinds": self.kinds_for(request),
            "copied": None if obj is not None else copied_task(request),
        }

    def kinds_for(self, request: HttpRequest) -> list[type[Task]]:
        """The kinds of task that this person may plan."""
        admins = self.admin_site._registry
        return [m for m in TASK_MODELS.values() if admins[m].has_add_permission(request)]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> Any:
        other = self.other_kind(request)
        if other is not None:
            return other.add_view(request, form_url, extra_context)
        complete_draft(request)
        words = {"title": gettext("Add task"), **(extra_context or {})}
        return super().add_view(request, form_url, words)

    def other_kind(self, request: HttpRequest) -> TaskAdmin | None:
        """The pages of the other kind of task, if the sent form or the address names that kind."""
        chosen = request.POST.get("repeats") or request.GET.get("repeats")
        kind = KINDS.get(chosen or "", self.model)
        return None if kind is self.model else self.admin_site._registry[kind]  # type: ignore[return-value]

    def get_changeform_initial_data(self, request: HttpRequest) -> Any:
        given = super().get_changeform_initial_data(request)
        return {**values_of_copy(copied_task(request), self.model), **given}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_over = obj is not None and obj.status == Task.Status.DELETED
        return not is_over and super().has_change_permission(request, obj)

    def has_mark_deleted_permission(self, request: HttpRequest) -> bool:
        return self._has_own_permission(request, f"delete_{self.opts.model_name}")

    def saves(self, request: HttpRequest) -> bool:
        return what_if.BUTTON not in request.POST

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> Any:
        fields = form.new_values
        if what_if.BUTTON in request.POST:
            form.what_if = what_if.compare_new(request, self.model, fields)
            return None
        return tasks.create_task(self.model, **fields, actor=actor)

    def update(self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str) -> Any:
        if what_if.BUTTON in request.POST:
            form.what_if = what_if.compare_edit(request, row, form.changes, version=version)
            return None
        return tasks.update_task(task=row, changes=form.changes, version=version, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def get_custom_urls(self) -> CustomUrls:
        pages = (
            ("add/said/", "said_of_new", task_meaning.new_view),
            ("<int:pk>/said/", "said", task_meaning.view),
        )
        own = ((path, self.url_name(name), view) for path, name, view in pages)
        return (*own, *super().get_custom_urls())

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        found = task_meaning.context(self, request, row, form)
        if row is None:
            found["top_panels"] = for_whom(request, "dispatch_oncetask")
        else:
            found["copies"] = copy_buttons(row, self.kinds_for(request))
        return found

    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        availability.read_availability([row])
        summary = Panel("", self._handed(request, row))
        return [summary, why_not_of_task(row)]

    def _summary(self, task: Task) -> SafeString:
        """`Open 4 of 6 handed out, 2 left`, and until when it can be had."""
        handed, quota = task.availability.handed, task.availability.quota
        words = gettext("%(handed)d of %(times)d handed out, %(left)d left")
        if task.dispatch_times is None:
            words = gettext("%(handed)d of %(times)d members")
        count = {"handed": handed, "times": quota, "left": task.availability.left}
        line = format_html("{} {}", self.shown_state(task), words % count)
        return format_html("<p>{}</p><p>{}</p>", line, _reach(task))

    def _handed(self, request: HttpRequest, task: Any) -> SafeString:
        """Where the task stands, the latest dispatches in sight, and where the others are."""
        dispatches = Dispatch.objects.visible_to(request.user).order_by("-pk")
        of_task = dispatches.filter(source=task.source, task=task.pk)
        latest = of_task.prefetch_related("executor").defer("params", "result")[:MAX_DISPATCHES]
        label = state_label("state", DISPATCH_COLOURS, "")
        rows = [
            (
                page_link(Dispatch, dispatch.pk),
                person(dispatch.executor),
                label(None, dispatch),
                short_time(dispatch.dispatched_at),
            )
            for dispatch in latest
        ]
        if not rows:
            return format_html("{}<p>{}</p>", self._summary(task), _("Not handed out yet."))
        heads = _("Number"), _("Who"), _("State"), capfirst(gettext("handed out"))
        every = list_url(Dispatch, source=task.source, task=task.pk)
        return format_html(
            "{}{}<p>{} · {}</p>",
            self._summary(task),
            table(heads, rows, look="handed-table"),
            link(every, _("All dispatches of this task")),
            ends_of(task),
        )
