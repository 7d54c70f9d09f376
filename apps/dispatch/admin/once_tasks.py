"""Once tasks in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from apps.dispatch.admin.filters import StateFilter, task_filters
from apps.dispatch.admin.periods import StartsIn
from apps.dispatch.admin.task_actions import shift_action
from apps.dispatch.admin.task_form import TaskForm
from apps.dispatch.admin.tasks import TaskAdmin
from apps.dispatch.models import OnceTask


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

    shift = shift_action(
        _(
            "Start and end move by the same time. What is handed out already stays counted, and "
            "open dispatches keep their deadlines."
        )
    )


admin.site.register(OnceTask, OnceTaskAdmin)
