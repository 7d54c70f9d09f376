"""Filters that several lists of the dispatch box share."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.filters import ChoiceFilter, KeyFilter, NumberFilter
from apps.common.admin.key_choice import KeyInput
from apps.dispatch.models import Executor, Membership, Source, Task

NAMES_URL = reverse_lazy("admin:dispatch_executor_names")


class ExecutorFilter(KeyFilter):
    """By the name of an executor; a subclass says what the executor has to do with the rows."""

    title = _("executor")
    parameter = "executor"
    lookup = "executor__name"

    def fields(self) -> dict[str, forms.Field]:
        widget = KeyInput(suggestions=NAMES_URL)
        return {self.parameter: forms.CharField(label="", required=False, widget=widget)}


def users_behind(name: str) -> list[int]:
    """The user of that name, or the members of the group.

    As plain ids, because the index that starts with the executor is used for nothing else.
    """
    users = Executor.objects.within([name]).users()
    return list(users.values_list("pk", flat=True))


class DispatchesOf(ExecutorFilter):
    """The dispatches to a user, or to the members that a group has now."""

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        super().narrowed(rows, given)
        return rows.filter(executor__in=users_behind(given[self.parameter]))


class TasksFor(ExecutorFilter):
    """The tasks that can reach an executor: addressed to it, or to a group that it is in."""

    title = _("reaches executor")

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        super().narrowed(rows, given)
        name = given[self.parameter]
        groups = Membership.objects.filter(user__name=name).values("group")
        reached = Executor.objects.filter(Q(name=name) | Q(pk__in=groups))
        # Plain ids, because the index that starts with the executor is used for nothing else.
        return rows.filter(executor__in=list(reached.values_list("pk", flat=True)))


class StatusFilter(ChoiceFilter):
    """Deleted tasks are kept for their history and shown only when asked for."""

    title = _("status")
    parameter = "status"
    options = Task.Status.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.used_parameters.get(self.parameter):
            # Named, because an index finds values and not the lack of one.
            return queryset.filter(status__in=[Task.Status.ACTIVE, Task.Status.PAUSED])
        return super().queryset(request, queryset)


class ModeFilter(ChoiceFilter):
    title = _("mode")
    parameter = "mode"
    options = Task.Mode.choices


class MembersOf(ExecutorFilter):
    """The users that are in a group."""

    title = _("member of")
    parameter = "group"
    lookup = "memberships__group__name"


class SourceFilter(ChoiceFilter):
    title = _("source")
    parameter = "source"
    options = Source.choices


class TaskFilter(NumberFilter):
    """By the id of a task, of whatever source."""

    title = _("task")
    parameter = "task"

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        # Naming every source lets the index that starts with it be used.
        return super().narrowed(rows.filter(source__in=Source.values), given)
