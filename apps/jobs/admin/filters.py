"""Filters of the lists of jobs and workers."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common.admin.filters import ChoiceFilter, DayFilter, FormFilter, KeyFilter
from apps.jobs.models import Job, JobType, Worker


def type_names() -> list[str]:
    """All types by name. A type with jobs is never deleted."""
    return list(JobType.objects.order_by("name").values_list("name", flat=True))


class TypeFilter(FormFilter):
    title = _("type")
    parameter = "type"

    def fields(self) -> dict[str, forms.Field]:
        choices = [("", _("All")), *((name, name) for name in type_names())]
        chosen = self.used_parameters.get("type")
        if chosen and chosen not in dict(choices):
            choices.append((str(chosen), str(chosen)))
        widget = UnfoldAdminSelectWidget(choices=choices)
        return {"type": forms.ChoiceField(label="", required=False, choices=choices, widget=widget)}

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if given["type"] not in type_names():
            raise ValueError(gettext("There is no job type %s.") % repr(given["type"][:80]))
        return rows.filter(type=given["type"])


class StatusFilter(ChoiceFilter):
    title = _("status")
    parameter = "status"
    options = Job.Status.choices


class LaneFilter(ChoiceFilter):
    title = _("lane")
    parameter = "lane"
    options = JobType.Lane.choices

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if given["lane"] not in JobType.Lane.values:
            raise ValueError(gettext("%s is none of the choices.") % given["lane"][:80])
        types = JobType.objects.filter(lane=given["lane"])
        return rows.filter(type__in=list(types.values_list("name", flat=True)))


class JobKeyFilter(KeyFilter):
    title = _("key")
    parameter = "key"


class UserFilter(KeyFilter):
    title = _("user")
    parameter = "user"
    lookup = "user_id"


class HostFilter(KeyFilter):
    title = _("host")
    parameter = "host"


class ErrorFilter(KeyFilter):
    title = _("error key")
    parameter = "error_key"


class WorkerFilter(KeyFilter):
    title = _("worker")
    parameter = "worker"


class CreatedFilter(DayFilter):
    title = _("created")


class WorkerStateFilter(ChoiceFilter):
    title = _("state")
    parameter = "state"
    options = Worker.State.choices
