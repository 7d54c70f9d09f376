"""Filters that several lists of the dispatch box share."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.filters import ChoiceFilter, KeyFilter, NumberFilter
from apps.common.admin.key_choice import KeyInput
from apps.common.admin.payload_filter import PayloadFilter
from apps.common.paging import MAX_EXAMINED
from apps.dispatch.models import Dispatch, Source, Task
from apps.dispatch.rules import dispatch_filter, life, task_filter
from apps.dispatch.services.filtered import reaching, users_behind
from apps.dispatch.services.planning import (
    ENDING_WITHIN,
    MAX_LOOKED_AT,
    UNFILLED_WITHIN,
    silent_holders,
)
from apps.dispatch.services.standing import ending_within, in_state, once_by_time, once_in_state

# Tasks that are looked at for a list of one state.
MAX_ONCE = MAX_EXAMINED
MAX_ROTATIONS = 1000
NAMES_URL = reverse_lazy("admin:dispatch_executor_names")


class ExecutorFilter(KeyFilter):
    """By the name of an executor; a subclass says what the executor has to do with the rows."""

    title = _("executor")
    parameter = "executor"
    lookup = "executor__name"

    def fields(self) -> dict[str, forms.Field]:
        widget = KeyInput(suggestions=NAMES_URL)
        return {self.parameter: forms.CharField(label="", required=False, widget=widget)}


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
        return rows.filter(executor__in=reaching(given[self.parameter]))


class StateFilter(ChoiceFilter):
    """What an operator has made of the tasks, or what has become of the active ones.

    Deleted tasks are kept for their history and shown only when asked for.
    """

    title = _("state")
    parameter = "status"
    options = (
        *Task.State.choices,
        (life.UNFILLED, _("quota not full")),
        (Task.Status.ACTIVE.value, _("neither paused nor deleted")),
    )
    tabs = Task.State.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.used_parameters.get(self.parameter):
            # Named, because an index finds values and not the lack of one.
            return queryset.filter(status__in=[Task.Status.ACTIVE, Task.Status.PAUSED])
        return super().queryset(request, queryset)

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if given[self.parameter] not in (*life.OF_ACTIVE, life.UNFILLED):
            return super().narrowed(rows, given)
        return self.in_state(rows, given[self.parameter])

    def in_state(self, rows: QuerySet[Any], state: str) -> QuerySet[Any]:
        """The active ones that are in this state."""
        return once_in_state(_newest(self.request, rows, once_by_time(rows, state)), state)


class RotationStateFilter(StateFilter):
    """By the current occurrence, which the database does not know."""

    def in_state(self, rows: QuerySet[Any], state: str) -> QuerySet[Any]:
        active = rows.filter(status=Task.Status.ACTIVE).order_by("-pk")
        found = list(active.defer("title", "params")[: MAX_ROTATIONS + 1])
        if len(found) > MAX_ROTATIONS:
            _say_looked_at(self.request, MAX_ROTATIONS)
        chosen = in_state(found[:MAX_ROTATIONS], state)
        return rows.filter(pk__in=[task.pk for task in chosen])


class EndsFilter(ChoiceFilter):
    """The tasks that can be had, but no longer after so many hours."""

    title = _("ends")
    parameter = "ends"
    options = (("6h", _("within 6 hours")), ("24h", _("within 24 hours")))
    lengths: ClassVar = {"6h": ENDING_WITHIN, "24h": UNFILLED_WITHIN}

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        within = self.lengths.get(given[self.parameter])
        if within is None:
            return super().narrowed(rows, given)
        return ending_within(rows, within)


class SilentFilter(ChoiceFilter):
    """The users with work in hand who have not called for long."""

    title = _("silent with work in hand")
    parameter = "silent"
    options = (("True", _("yes")),)

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if given[self.parameter] not in dict(self.options):
            return super().narrowed(rows, given)
        found, are_all = silent_holders(Dispatch.objects.visible_to(self.request.user))
        if not are_all:
            text = gettext("Only %d open dispatches were looked at.") % MAX_LOOKED_AT
            messages.warning(self.request, text)
        return rows.filter(pk__in=found)


class TaskPayload(PayloadFilter):
    columns = task_filter.PAYLOAD

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        return super().narrowed(_newest(self.request, rows, rows), given)


class DispatchPayload(PayloadFilter):
    columns = dispatch_filter.PAYLOAD


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


def _newest(request: HttpRequest, rows: QuerySet[Any], possible: QuerySet[Any]) -> QuerySet[Any]:
    """The rows as far back as the newest MAX_ONCE of those that are possible reach."""
    numbers = possible.order_by("-pk").values_list("pk", flat=True)
    beyond = list(numbers[MAX_ONCE : MAX_ONCE + 1])
    if not beyond:
        return rows
    _say_looked_at(request, MAX_ONCE)
    return rows.filter(pk__gt=beyond[0])


def _say_looked_at(request: HttpRequest, count: int) -> None:
    text = gettext("Only the newest %d tasks were looked at; choose fewer days.")
    messages.warning(request, text % count)
