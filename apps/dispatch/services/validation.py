"""Validation of a task: all errors at once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.errors import Invalid, Mistakes
from apps.common.json.schema import check_params
from apps.common.json_rules import check_json
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.common.zones import parse_zone
from apps.dispatch.models import OnceTask, RotateTask, Task
from apps.dispatch.rules.recurrence import Recurrence, parse_rule, require_due
from apps.dispatch.rules.task import RANGES, check_task
from apps.dispatch.services.templates import check_usable
from apps.journal.services.edit import choice_faults


def validate(model: type[Task], fields: Mapping[str, Any], *, current: Task | None) -> None:
    """Invalid with every error in these fields; writes nothing.

    The other fields are those of `current`, or of a new task. Callers that could not read some
    field report the errors of the others together with it.
    """
    check_names(model, fields)
    new: Any = model
    task: Any = new(start_at=clock.now()) if current is None else copy(current)
    for name, value in fields.items():
        if name != "start_at" or value is not None:
            setattr(task, name, value)
    if "params" not in fields:
        task.params = kept(task.params)
    same = current is not None and all(
        getattr(task, name, None) == getattr(current, name, None) for name in RotateTask.rule_fields
    )
    since = task.start_at if current is None else None if same else clock.now()
    check(task, template_is_new="template" in fields, due_since=since)


def check_names(model: type[Task], fields: Mapping[str, Any]) -> None:
    """Invalid when a field does not exist or cannot be set."""
    unknown = sorted(set(fields) - set(model.editable))
    if unknown:
        message = _("A task has no field {field} that can be set.", field=unknown[0])
        raise Invalid.field(unknown[0], message)


def check(
    task: OnceTask | RotateTask, *, template_is_new: bool, due_since: datetime | None
) -> None:
    """Invalid with every error of the task; a retired template may stay.

    A rotation must be due at some time from `due_since` on; None for one whose rule is as it was.
    """
    mistakes = Mistakes()
    _check_choices(task, mistakes)
    with mistakes:
        check_task(
            title=task.title,
            mode=task.mode,
            start_at=task.start_at,
            end_at=task.end_at,
            **{name: getattr(task, name) for name in RANGES if hasattr(task, name)},
        )
    if isinstance(task, RotateTask):
        with mistakes:
            parse_rule(task.rule)
        with mistakes:
            parse_zone(task.time_zone)
        if due_since is not None and not mistakes:
            with mistakes:
                require_due(_recurrence(task), due_since)
    with mistakes:
        if task.template is not None and template_is_new:
            check_usable(task.template)
    with mistakes:
        check_json(task.params, field="params")
        if task.template is not None:
            check_params(task.template.schema, task.params)
    mistakes.raise_all()


def _recurrence(task: RotateTask) -> Recurrence:
    """The recurrence as it will be; that of the row itself is worked out when all of it is set."""
    return Recurrence(
        rule=parse_rule(task.rule),
        zone=parse_zone(task.time_zone),
        start_at=task.start_at,
        end_at=task.end_at,
    )


def _check_choices(task: OnceTask | RotateTask, mistakes: Mistakes) -> None:
    for fault in choice_faults(task):
        mistakes.add(Invalid.field(fault.field, fault.message))
    if task.status == Task.Status.DELETED:
        message = (
            _("A new task is active or paused.")
            if task._state.adding
            else _("Delete the task instead of setting this status.")
        )
        mistakes.add(Invalid.field("status", message))
