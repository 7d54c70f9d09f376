"""Rotations in the admin: tasks with a rule in place of the one start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import (
    column,
    due_list,
    rule_words,
    short_time,
    shown_rule,
    translate,
    zoned_time_column,
)
from apps.common.admin.html import noted
from apps.common.admin.pages import Panel
from apps.dispatch.admin.filters import RotationStateFilter, task_filters
from apps.dispatch.admin.periods import RunsIn
from apps.dispatch.admin.task_actions import shift_action
from apps.dispatch.admin.task_form import OF_RULES, TaskForm
from apps.dispatch.admin.tasks import TaskAdmin
from apps.dispatch.conf import conf
from apps.dispatch.models import RotateTask
from apps.dispatch.services import tasks

NEXT_DUE = 10


class RotateTaskForm(TaskForm):
    class Meta(TaskForm.Meta):
        model = RotateTask
        fields = (*TaskForm.Meta.fields, *OF_RULES)


class RotateTaskAdmin(TaskAdmin):
    form = RotateTaskForm
    when_read_only = (
        *("shown_rule", "time_zone", "shown_start_at", "shown_end_at"),
        *("misfire", "misfire_limit"),
    )
    when_empty = _("No repeating task runs in these days. Choose others above, or plan one.")
    list_display = (
        "shown_title",
        "executor_and_rotations",
        "shown_state",
        "rule_words",
        "next_due",
        "quota",
        "priority",
    )
    list_mobile = (
        ("shown_state", "shown_title"),
        ("executor_and_rotations", "next_due"),
    )
    list_filter = task_filters(RunsIn, RotationStateFilter)

    shown_rule, rule_words = shown_rule, rule_words
    shown_start_at = zoned_time_column("start_at", _("start"))
    shown_end_at = zoned_time_column("end_at", _("end"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        super().prepare_page(request, rows)
        active = tasks.active_rotations({row.executor_id for row in rows})
        for row in rows:
            row.executor_rotations = active[row.executor_id]

    @column(_("next due"))
    def next_due(self, task: RotateTask) -> SafeString | str:
        coming = next(task.recurrence.after(clock.now()), None)
        return (
            "–"
            if coming is None or task.status != RotateTask.Status.ACTIVE
            else short_time(coming, also=task.recurrence.zone)
        )

    @column(_("who"))
    def executor_and_rotations(self, task: Any) -> SafeString:
        """The executor, and how many of the rotations that it may have are taken."""
        counts = {"count": task.executor_rotations, "limit": conf.ROTATIONS_PER_EXECUTOR}
        note = gettext("%(count)d of %(limit)d repeating tasks") % counts
        return noted(self.executor_link(task), note, look="cell-note")

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        summary, *others = super().top_panels(request, row)
        rule = capfirst(translate(row.summary))
        body = format_html("{}<p>{} · {}</p>", summary.body, rule, self._room(row))
        panels = [replace(summary, body=body), *others]
        if not self.has_change_permission(request, row):
            # The form has the next ones, by what is filled in.
            panels.append(Panel(_("Due"), self._due(row)))
        return panels

    @staticmethod
    def _room(task: RotateTask) -> str:
        """How many rotations the executor has."""
        return gettext(
            "%(executor)s has %(count)s of at most %(limit)s active repeating tasks."
        ) % {
            "executor": task.executor.shown,
            "count": tasks.active_rotations([task.executor_id])[task.executor_id],
            "limit": conf.ROTATIONS_PER_EXECUTOR,
        }

    @staticmethod
    def _due(task: RotateTask) -> SafeString:
        """The rule in words and the next instants."""
        coming = islice(task.recurrence.after(clock.now()), NEXT_DUE)
        due = due_list(coming, task.recurrence.zone)
        return format_html("<p>{}</p>{}", translate(task.summary), due)

    # --- actions ----------------------------------------------------------------------------------
    shift = shift_action(
        _(
            "Start and end move by the same time. A rule of minutes counts from the start; "
            "every … days counts its days from the new first day. A time of day and cron stay "
            "as they are: a repeating task whose occurrences would not change is skipped. Editing "
            "the start never creates occurrences in the past; missed ones not handed out yet "
            "are dropped."
        )
    )


admin.site.register(RotateTask, RotateTaskAdmin)
