"""Once tasks in the admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from apps.common.admin import Outcome, reason_action
from apps.common.admin.display import time_column
from apps.dispatch.admin.explain import ExplainTaskMixin
from apps.dispatch.admin.filters import ModeFilter, StatusFilter, TasksFor
from apps.dispatch.admin.periods import StartsIn
from apps.dispatch.admin.task_actions import ShiftForm
from apps.dispatch.admin.task_exchange import OnceTaskResource
from apps.dispatch.admin.task_form import TaskForm
from apps.dispatch.admin.tasks import TaskAdmin
from apps.dispatch.admin.what_if import WhatIfMixin
from apps.dispatch.models import OnceTask
from apps.dispatch.services import bulk


class OnceTaskForm(TaskForm):
    class Meta(TaskForm.Meta):
        model = OnceTask


class OnceTaskAdmin(ExplainTaskMixin, WhatIfMixin, TaskAdmin):
    form = OnceTaskForm
    resource_class = OnceTaskResource
    import_title = _("Import once tasks")
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
    list_filter = (TasksFor, StatusFilter, ModeFilter, StartsIn)

    shown_start_at = time_column("start_at", _("start"), ordering="start_at")
    shown_end_at = time_column("end_at", _("end"), ordering="end_at")

    @reason_action(
        description=_("Shift"),
        permission="change",
        question=_(
            "Start and end move by the same time. What is handed out already stays counted, and "
            "open dispatches keep their deadlines."
        ),
        icon="update",
        offered=lambda task: task.status != OnceTask.Status.DELETED,
        form=ShiftForm,
        at_once=True,
    )
    def shift(
        self, rows: QuerySet[Any], *, by: timedelta, reason: str, actor: str, once: str
    ) -> Outcome:
        return self.told(rows, bulk.shift(rows, by, actor=actor, reason=reason, once=once))


admin.site.register(OnceTask, OnceTaskAdmin)
