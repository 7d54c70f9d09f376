"""The filters of schedules in their list and REST; schedules are few."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.common.filtersets import Choice, Key, RowFilters
from apps.schedules.models import Schedule

# The API takes and shows no deleted schedules.
STATUSES = [each for each in Schedule.Status.choices if each[0] != Schedule.Status.DELETED.value]


class ScheduleFilters(RowFilters):
    job_type = Key(label=_("type"), listed="type")
    status = Choice(Schedule.Status.choices, label=_("status"))

    class Meta:
        model = Schedule
        fields = ()


class RestScheduleFilters(ScheduleFilters):
    status = Choice(STATUSES, label=_("status"))
