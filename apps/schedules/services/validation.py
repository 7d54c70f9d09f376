"""Validation of a schedule: all errors at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.errors import FieldError, Invalid, Mistakes, refusal
from apps.common.json_rules import check_size
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.common.zones import parse_zone
from apps.dispatch.rules.recurrence import parse_rule, require_due
from apps.jobs.models import Bounds
from apps.jobs.services.submit import Submission
from apps.jobs.services.submit_check import field_errors
from apps.journal.services.edit import choice_faults
from apps.schedules.models import Schedule
from apps.schedules.rules import limits
from apps.schedules.rules.occurrences import recurrence_of


def validate(
    fields: Mapping[str, Any], *, current: Schedule | None, bounds: Bounds | None = None
) -> None:
    """Invalid with every error in these fields; writes nothing.

    The other fields are those of `current`, or of a new schedule. Callers that could not read some
    field report the errors of the others together with it.
    """
    check_names(fields)
    schedule = Schedule(start_at=clock.now()) if current is None else copy(current)
    for name, value in fields.items():
        if name != "start_at" or value is not None:
            setattr(schedule, name, value)
    if "context" not in fields:
        schedule.context = kept(schedule.context)
    same = current is not None and all(
        getattr(schedule, name) == getattr(current, name) for name in Schedule.rule_fields
    )
    since = schedule.start_at if current is None else None if same else clock.now()
    check(schedule, bounds or Bounds(), due_since=since)


def check_names(fields: Mapping[str, Any], model: type[Schedule] = Schedule) -> None:
    """Invalid when a field does not exist or cannot be set."""
    unknown = sorted(set(fields) - set(model.editable))
    if unknown:
        message = _("A schedule has no field {field} that can be set.", field=unknown[0])
        raise Invalid.field(unknown[0], message)


def check(schedule: Schedule, bounds: Bounds, *, due_since: datetime | None) -> None:
    """Invalid with every error of the schedule, and of the jobs that it would make.

    It must be due at some time from `due_since` on; None when its rule is as it was.
    """
    mistakes = Mistakes()
    for errors in (choice_faults(schedule), _own_faults(schedule), _job_faults(schedule, bounds)):
        with mistakes:
            if found := [*errors]:
                raise refusal(found)
    with mistakes:
        check_size(schedule.context, field="context")
    if schedule.rule is not None:
        with mistakes:
            parse_rule(schedule.rule)
    with mistakes:
        parse_zone(schedule.time_zone)
    if due_since is not None and not mistakes:
        with mistakes:
            if schedule.rule is None and schedule.start_at < due_since:
                raise Invalid.field("start_at", _("It would never run: choose a start to come."))
            # The property `recurrence` may hold the earlier rule.
            require_due(
                recurrence_of(
                    rule=None if schedule.rule is None else parse_rule(schedule.rule),
                    zone=parse_zone(schedule.time_zone),
                    start_at=schedule.start_at,
                    end_at=schedule.end_at,
                ),
                due_since,
            )
    mistakes.raise_all()


def _own_faults(schedule: Schedule) -> Iterator[FieldError]:
    return limits.faults(
        title=schedule.title,
        is_once=schedule.rule is None,
        start_at=schedule.start_at,
        end_at=schedule.end_at,
        misfire_limit=schedule.misfire_limit,
    )


def _job_faults(schedule: Schedule, bounds: Bounds) -> Iterator[FieldError]:
    """The faults for which a submission of its job would be refused."""
    job = Submission(
        type=schedule.job_type,
        key=schedule.key_of(0),
        context=schedule.context,
        priority=schedule.priority,
        max_attempts=schedule.max_attempts,
    )
    found = [*field_errors(job, bounds)]
    wrong_type = [replace(error, field="job_type") for error in found if error.field == "type"]
    # The context cannot be checked when the type is wrong.
    yield from wrong_type or found
