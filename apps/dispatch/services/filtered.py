"""The filters of executors, tasks and dispatches in lists, REST and bulk runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.db.models import OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext_lazy as _

from apps.common import clock, filtering
from apps.common.filtering import RowFilter
from apps.common.filtersets import (
    Choice,
    Choices,
    Door,
    Id,
    Instant,
    Key,
    MadeBefore,
    MadeSince,
    Number,
    Numbers,
    Payload,
    ReadField,
    RowFilters,
    Text,
)
from apps.common.readers import read_number
from apps.dispatch.models import (
    ArchivedDispatch,
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    RotateTask,
    Source,
    Task,
    Template,
)
from apps.dispatch.models.dispatch import IS_OPEN
from apps.dispatch.rules import names, policy
from apps.dispatch.services.availability import ending_within
from apps.dispatch.services.parts import parts

_PEOPLE = Door.LIST | Door.BULK
_PROGRAMS = Door.REST | Door.BULK
_ROWS = Door.ADDRESS | Door.BULK
# The API takes and shows no deleted tasks.
STATUSES = [each for each in Task.Status.choices if each[0] != Task.Status.DELETED.value]
STATES = [each for each in Task.State.choices if each[0] != Task.State.DELETED.value]

# A task that ends is looked at a shift ahead, or a day.
_ENDS = {"6h": timedelta(hours=6), "24h": timedelta(hours=24)}


# --- executors ------------------------------------------------------------------------------------
def users_behind(name: str) -> list[int]:
    """The user of that name, or the members of the group.

    As plain ids, because the index that starts with the executor is used for nothing else.
    """
    users = Executor.objects.within([name]).users()
    return list(users.values_list("pk", flat=True))


def reaching(name: str) -> list[int]:
    """The executor of that name and the groups that it is in, as plain ids for the same reason."""
    groups = Membership.objects.filter(user__name=name).values("group")
    reached = Executor.objects.filter(Q(name=name) | Q(pk__in=groups))
    return list(reached.values_list("pk", flat=True))


def _of_users(rows: Any, _name: str, executor: str) -> Any:
    return rows.filter(executor__in=users_behind(executor))


def _reaching(rows: Any, _name: str, executor: str) -> Any:
    return rows.filter(executor__in=reaching(executor))


def _addressed(rows: Any, _name: str, executor: str) -> Any:
    return rows.filter(executor__name=executor) if names.is_name(executor) else rows.none()


def _of_one(rows: Any, _name: str, executor: str) -> Any:
    # As a number, because a join might begin anywhere.
    known = Executor.objects.filter(name=executor).values_list("pk", flat=True)
    return rows.filter(executor_id=(names.is_name(executor) and known.first()) or 0)


class ExecutorName(Text):
    """The executor of exactly this name. For a text that is no name, people get an error; programs
    find no row."""

    max_length = names.MAX_CHARACTERS

    def value_of(self, given: Any) -> Any:
        return given

    @property
    def typed_field(self) -> forms.Field:
        return ReadField(read=filtering.key)


class ExecutorFilters(RowFilters):
    """The filters of executors. Names of members have an index; the other filters compare
    few rows."""

    kind = Choice(Executor.Kind.choices, label=_("kind"), doors=Door.LIST | Door.REST)
    enabled = Choice((("True", _("yes")), ("False", _("no"))), label=_("enabled"), doors=Door.LIST)
    group = Key("memberships__group__name", label=_("member of"), doors=Door.LIST)
    silent = Choice((("True", _("yes")),), label=_("silent with work in hand"), doors=Door.LIST)


# --- tasks ----------------------------------------------------------------------------------------
def _in_title(rows: Any, column: str, text: str) -> Any:
    # As the search of a list has it.
    for word in text.split():
        rows = rows.filter(**{f"{column}__icontains": word})
    return rows


def _not_over(rows: Any, _name: str, instant: datetime) -> Any:
    return rows.filter(Q(end_at=None) | Q(end_at__gt=instant))


def _ending(rows: Any, _name: str, within: str) -> Any:
    return ending_within(rows, _ENDS[within])


class TaskFilters(RowFilters):
    """The filters of tasks: `executor` is one whom they reach, directly or by a group; `text` is
    part of a title.

    Indexes have the executors, and the starts of a period, which a subclass adds.
    """

    ids = Numbers("pk", label=_("numbers"), doors=_ROWS)
    executor = Key(
        label=_("reaches"),
        method=_reaching,
        doors=_PEOPLE,
        help_text="Whom they reach, also by a group.",
    )
    mode = Choice(Task.Mode.choices, label=_("mode"), doors=_PEOPLE)
    status = Choices(Task.Status.choices, label=_("state"), doors=_PEOPLE)
    ends = Choice(
        (("6h", _("within 6 hours")), ("24h", _("within 24 hours"))),
        label=_("ends"),
        method=_ending,
        doors=Door.LIST,
    )
    where = Payload(("params",), label=_("payload"))
    text = Text(
        "title",
        label=_("search"),
        method=_in_title,
        listed="q",
        doors=_ROWS,
        help_text="Parts of the title.",
    )


def _task_of(rows: Any, _name: str, number: int) -> Any:
    """One row."""
    return rows.filter(pk=parts.span(number).last, part_of=number)


class OnceTaskFilters(TaskFilters):
    """The filters of once tasks; a period is one of their starts."""

    period = ("start_after", "start_before")

    part_of = Id(
        label=_("part of"),
        method=_task_of,
        help_text="The task of a step of a flow, by the number of the step.",
    )
    start_after = Instant("start_at", "gte", label=_("start from"), doors=Door.BULK)
    start_before = Instant("start_at", "lt", label=_("start before"), doors=Door.BULK)

    class Meta:
        model = OnceTask
        fields = ()


class RotateTaskFilters(TaskFilters):
    """The filters of rotations; a period finds those that run at some time in it, from start to
    end."""

    period = ("runs_after", "runs_before")

    left_out = frozenset({"ends"})

    runs_after = Instant(
        label=_("runs after"),
        method=_not_over,
        doors=Door.BULK,
        help_text="Those that do not end by then.",
    )
    runs_before = Instant(
        "start_at",
        "lt",
        label=_("runs before"),
        doors=Door.BULK,
        help_text="Those that start before it.",
    )

    class Meta:
        model = RotateTask
        fields = ()


class RestTaskFilters(RowFilters):
    """The filters of tasks for programs: the executor that a task is addressed to, the status that
    an operator has set, and the state, by which `availability` finds tasks."""

    executor = ExecutorName(label=_("who"), method=_addressed)
    status = Choice(STATUSES, label=_("status"))
    state = Choice(STATES, label=_("state"), help_text="What has become of it.")
    where = Payload(("params",), label=_("payload"))


class RestOnceTaskFilters(RestTaskFilters):
    """The filters of once tasks in REST; once tasks may be part of something."""

    part_of = OnceTaskFilters.base_filters["part_of"]


class ArchivedTaskFilters(RowFilters):
    """The filters of archived tasks, which are examined newest first."""

    executor = ExecutorName(label=_("who"), method=_addressed)
    source = Choice(Source.choices, label=_("source"))


TASK_FILTERS: Mapping[type[Task], type[TaskFilters]] = {
    OnceTask: OnceTaskFilters,
    RotateTask: RotateTaskFilters,
}


def tasks_meant(model: type[OnceTask] | type[RotateTask], wanted: RowFilter) -> QuerySet[Any]:
    """The tasks that the filter means with the `template_version` that they have, rotations with
    their rule as text in `rule_json`; Invalid when the filter compares masked values."""
    # No join: whoever locks the tasks would lock the templates, too.
    of = Template.objects.filter(pk=OuterRef("template_id")).values("version")
    rows: QuerySet[Any] = model.objects.annotate(template_version=Subquery(of))
    if model is RotateTask:
        rows = rows.annotate(rule_json=Cast("rule", TextField()))
    return TASK_FILTERS[model].narrow(rows, wanted)


# --- dispatches -----------------------------------------------------------------------------------
def _in_states(rows: Any, _name: str, states: Sequence[str]) -> Any:
    # Only open dispatches have `open_for`, and it has an index.
    if states == (policy.OPEN,):
        return rows.filter(IS_OPEN)
    # A list of one is a range to MariaDB, which may then read all of the state and sort it.
    return rows.filter(state=states[0]) if len(states) == 1 else rows.filter(state__in=states)


def overdue(rows: Any) -> Any:
    """The dispatches that are open past their deadline: `open_for` has an index, and so have state
    and deadline together on MariaDB."""
    return rows.filter(IS_OPEN, state=policy.OPEN, deadline_at__lt=clock.now())


def _overdue(rows: Any, _name: str, _value: str) -> Any:
    return overdue(rows)


def _of_task(rows: Any, _name: str, task: int) -> Any:
    # Naming every source lets the index that starts with it be used.
    return rows.filter(source__in=Source.values, task=task)


def _of_part(rows: Any, _name: str, number: int) -> Any:
    """Keep the dispatches of the one task of the part, which has an index."""
    return rows.filter(source=Source.ONCE, task=parts.span(number).last, part_of=number)


def _is_or_is_of(rows: Any, _name: str, text: str) -> Any:
    if (number := read_number(text)) is not None:
        return rows.filter(pk=number)
    known = Executor.objects.filter(name=text) if names.is_name(text) else Executor.objects.none()
    return rows.filter(executor__in=list(known.values_list("pk", flat=True)))


class DispatchFilters(RowFilters):
    """The filters of dispatches: `executor` is a user, or a group for its present members; `text`
    is a number or an executor.

    Indexes have the executors and the tasks of either source in the order of ids, and open
    dispatches.
    """

    period = ("dispatched_after", "dispatched_before")

    ids = Numbers("pk", label=_("numbers"), doors=_ROWS)
    executor = Key(
        label=_("who"),
        method=_of_users,
        doors=_PEOPLE,
        help_text="A user; a group stands for its members.",
    )
    state = Choices(Dispatch.State.choices, label=_("state"), method=_in_states)
    overdue = Choice(
        (("True", _("yes")),), label=_("overdue"), method=_overdue, doors=Door.LIST | Door.BULK
    )
    source = Choice(Source.choices, label=_("source"))
    task = Number(label=_("task"), method=_of_task)
    part_of = Id(
        label=_("part of"),
        method=_of_part,
        help_text="Those of a step of a flow, by the number of the step.",
    )
    where = Payload(("params", "result"), label=_("payload"))
    dispatched_after = MadeSince("dispatched_at", label=_("handed out from"), doors=_PROGRAMS)
    dispatched_before = MadeBefore("dispatched_at", label=_("handed out before"), doors=_PROGRAMS)
    text = Text(label=_("search"), method=_is_or_is_of, listed="q", doors=Door.ADDRESS)

    class Meta:
        model = Dispatch
        fields = ()


class RestDispatchFilters(DispatchFilters):
    """The filters of dispatches for programs, which name one user. Where indexes have the user and
    the task, that of the user is read."""

    in_order = (
        frozenset({"executor"}),
        frozenset({"source", "task"}),
        frozenset({"part_of"}),
    )

    executor = ExecutorName(label=_("who"), method=_of_one)


class RestArchiveFilters(RestDispatchFilters):
    """The filters of the archive for programs: no dispatch is open there, and no index has the
    states."""

    left_out = frozenset({"state"})


class ArchivedDispatchFilters(DispatchFilters):
    """`DispatchFilters` of the archive, which has no column of open dispatches."""

    left_out = frozenset({"overdue"})

    state = Choices(Dispatch.State.choices, label=_("state"), doors=Door.LIST)

    class Meta:
        model = ArchivedDispatch
        fields = ()


def keys_if_few(rows: QuerySet[Any], wanted: RowFilter, *, most: int) -> Sequence[int] | None:
    """The numbers of all dispatches that can be meant, if an index finds them and they are at most
    so many; else None."""
    if numbers := wanted.get("ids"):
        return numbers  # type: ignore[no-any-return]
    indexed = wanted.only(["executor", "state", "overdue", "task", "part_of"])
    if wanted.get("state") != (policy.OPEN,):
        indexed = indexed.without("state")
    if not indexed.given:
        return None
    found = DispatchFilters.narrow(rows, indexed).order_by().values_list("pk", flat=True)
    keys = list(found[: most + 1])
    return keys if len(keys) <= most else None
