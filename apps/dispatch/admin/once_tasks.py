"""Once tasks in the admin."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import time_column
from apps.common.admin.filters import DayFilter
from apps.dispatch.admin.filters import TasksFor
from apps.dispatch.admin.task_form import TaskForm
from apps.dispatch.admin.tasks import ModeFilter, StatusFilter, TaskAdmin
from apps.dispatch.models import OnceTask

RECENT = timedelta(days=7)


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


class OnceTaskForm(TaskForm):
    class Meta(TaskForm.Meta):
        model = OnceTask


class OnceTaskAdmin(TaskAdmin):
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
    list_filter: ClassVar[Any] = (TasksFor, StatusFilter, ModeFilter, PeriodFilter)

    shown_start_at = time_column("start_at", _("start"), ordering="start_at")
    shown_end_at = time_column("end_at", _("end"), ordering="end_at")


admin.site.register(OnceTask, OnceTaskAdmin)
