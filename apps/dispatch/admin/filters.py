"""Filters that several lists of the dispatch box share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import filtering
from apps.common.admin.filters import FormFilter, list_filters, read_parameter
from apps.common.admin.key_choice import KeyInput
from apps.common.admin.parts import PartFilter
from apps.common.admin.payload_filter import PayloadFilter
from apps.common.api.paging import MAX_EXAMINED
from apps.dispatch.models import Dispatch, Executor, Task
from apps.dispatch.rules import life
from apps.dispatch.services.availability import in_state, once_by_time, once_in_state
from apps.dispatch.services.parts import parts
from apps.dispatch.services.silent_people import MAX_LOOKED_AT, silent_holders

# Tasks that are looked at for a list of one state.
MAX_ONCE = MAX_EXAMINED
MAX_ROTATIONS = 1000
NAMES_URL = reverse_lazy("admin:dispatch_executor_names")


class ExecutorFilter(FormFilter):
    """The filter by the name of an executor, of which some are suggested."""

    def widget(self, each: Any) -> forms.Widget:
        return KeyInput(suggestions=NAMES_URL)


class PartOfFilter(PartFilter):
    parts = parts


class StateFilter(FormFilter):
    """The filter of tasks by the status that an operator has set, or by the state of active tasks.

    Deleted tasks are kept for their history and shown only when asked for, by their status or by
    what they are part of.
    """

    parameters = ("status",)
    options: ClassVar[Any] = (
        *Task.State.choices,
        (life.UNFILLED, _("quota not full")),
        (Task.Status.ACTIVE.value, _("neither paused nor deleted")),
    )
    tabs = Task.State.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.used_parameters.get("status"):
            if request.GET.get("part_of"):
                return queryset
            # Named, because an index finds values and not the lack of one.
            return queryset.filter(status__in=[Task.Status.ACTIVE, Task.Status.PAUSED])
        return super().queryset(request, queryset)

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        known = [str(value) for value, _label in self.options]
        state = read_parameter(filtering.one_of(known), given["status"])
        if state not in (*life.OF_ACTIVE, life.UNFILLED):
            return super().narrowed(rows, given)
        return self.in_state(rows, state)

    def in_state(self, rows: QuerySet[Any], state: str) -> QuerySet[Any]:
        """The active tasks that are in this state."""
        return once_in_state(_newest(self.request, rows, once_by_time(rows, state)), state)


class RotationStateFilter(StateFilter):
    """The filter by the state of the current occurrence, which the database does not know."""

    def in_state(self, rows: QuerySet[Any], state: str) -> QuerySet[Any]:
        active = rows.filter(status=Task.Status.ACTIVE).order_by("-pk")
        found = list(active.defer("title", "params")[: MAX_ROTATIONS + 1])
        if len(found) > MAX_ROTATIONS:
            _say_looked_at(self.request, MAX_ROTATIONS)
        chosen = in_state(found[:MAX_ROTATIONS], state)
        return rows.filter(pk__in=[task.pk for task in chosen])


class SilentFilter(FormFilter):
    """The users with work in hand who have not called for long; a tab of its own, but of groups."""

    @property
    def tabs(self) -> Sequence[tuple[Any, Any]]:
        is_of_groups = self.request.GET.get("kind") == Executor.Kind.GROUP
        return () if is_of_groups else (("True", self.title),)

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        read_parameter(filtering.one_of(["True"]), given["silent"])
        found, are_all = silent_holders(Dispatch.objects.visible_to(self.request.user))
        if not are_all:
            text = gettext("Only %d open dispatches were looked at.") % MAX_LOOKED_AT
            messages.warning(self.request, text)
        return rows.filter(pk__in=found)


class TaskPayload(PayloadFilter):
    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        return super().narrowed(_newest(self.request, rows, rows), given)


def task_filters(period: type[FormFilter], state: type[FormFilter]) -> tuple[type[FormFilter], ...]:
    """The filters of a list of tasks: for whom, the mode, the period, the state, and further."""
    found = list_filters(
        period.filters,
        executor=ExecutorFilter,
        status=state,
        where=TaskPayload,
        part_of=PartOfFilter,
    )
    executor, mode, *others = found
    return (executor, mode, period, *others)


def _newest(request: HttpRequest, rows: QuerySet[Any], possible: QuerySet[Any]) -> QuerySet[Any]:
    """The rows that are no older than the newest MAX_ONCE of the possible ones."""
    read_silent_people = possible.order_by("-pk").values_list("pk", flat=True)
    beyond = list(read_silent_people[MAX_ONCE : MAX_ONCE + 1])
    if not beyond:
        return rows
    _say_looked_at(request, MAX_ONCE)
    return rows.filter(pk__gt=beyond[0])


def _say_looked_at(request: HttpRequest, count: int) -> None:
    text = gettext("Only the newest %d tasks were looked at; choose fewer days.")
    messages.warning(request, text % count)
