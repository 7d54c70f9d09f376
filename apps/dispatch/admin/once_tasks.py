"""Once tasks in the admin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.pages import Panel
from apps.common.admin.parts import part_of, read_wholes
from apps.dispatch.admin.filters import StateFilter, task_filters
from apps.dispatch.admin.periods import StartsIn
from apps.dispatch.admin.task_actions import shift_action
from apps.dispatch.admin.task_form import TaskForm
from apps.dispatch.admin.tasks import TaskAdmin
from apps.dispatch.models import OnceTask
from apps.dispatch.services.parts import parts


class OnceTaskForm(TaskForm):
    class Meta(TaskForm.Meta):
        model = OnceTask


class OnceTaskAdmin(TaskAdmin):
    form = OnceTaskForm
    when_empty = _("No task starts in these days. Choose others above, or plan one.")
    list_display = (
        "shown_title",
        "executor_link",
        "shown_state",
        "mode_word",
        "quota",
        "priority",
        "shown_start_at",
        "until",
    )
    list_mobile = (
        ("shown_state", "shown_title"),
        ("executor_link", "quota", "shown_start_at"),
    )
    list_filter = task_filters(StartsIn, StateFilter)

    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        summary, *others = super().top_panels(request, row)
        read_wholes([row], parts, request.user)
        if whole := part_of(row):
            line = format_html("<p>{} <bdi>{}</bdi></p>", gettext("Part of:"), whole)
            summary = replace(summary, body=format_html("{}{}", line, summary.body))
        return [summary, *others]

    shift = shift_action(
        _(
            "Start and end move by the same time. What is handed out already stays counted, and "
            "open dispatches keep their deadlines."
        )
    )


admin.site.register(OnceTask, OnceTaskAdmin)
