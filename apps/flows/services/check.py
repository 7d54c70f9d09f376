"""Whether a definition can be carried out: its shape, and what it names; all errors at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from apps.common.errors import FieldError, PlatformError, refusal
from apps.common.json.schema import check_params
from apps.common.messages import Message as _
from apps.dispatch.models import Executor, OnceTask, Template
from apps.dispatch.services.templates import find_usable
from apps.dispatch.services.validation import validate
from apps.flows.models import Sides
from apps.flows.rules import definition as rules
from apps.flows.rules import shapes
from apps.flows.rules.definition import Definition, Step
from apps.flows.rules.references import references
from apps.flows.services.people import as_fields
from apps.jobs.models import Bounds
from apps.jobs.rules.submission import Submission
from apps.jobs.services.submit_check import MAX_ERRORS, faults_of_part

FIELD = "definition"
# What the fields of a task are called in a step.
_NAMES = {"dispatch_times": "quota"}


def check(said: Any, *, bounds: Bounds) -> Definition:
    """The definition, read; else an error that names all that is wrong, each with its path, such
    as `definition.steps[2].type`.

    Types and executors outside the bounds count as unknown.
    """
    found = rules.faults(said)
    if found:
        raise _refusal(found)
    definition = Definition(said)
    places = {step["name"]: position for position, step in enumerate(said["steps"])}
    sides = Sides.of(bounds)
    usable = cache(find_usable)
    executors = _executors(definition, sides)
    # Jobs of flows are nobody's.
    of_jobs = bounds if bounds.are_open else replace(bounds, types=sides.types, takes_nobodys=True)
    for name, step in sorted(definition.steps.items(), key=lambda each: places[each[0]]):
        at = f"steps[{places[name]}]"
        if step.kind in (shapes.JOB, shapes.JOBS):
            found += _job_faults(step, at, of_jobs)
        elif step.kind == shapes.TASK:
            found += _task_faults(step, at, executors, usable)
    if found:
        raise _refusal(found)
    return definition


def _refusal(found: Sequence[FieldError]) -> PlatformError:
    # A small definition can have thousands.
    return refusal([*map(_below, found[:MAX_ERRORS])])


def _below(fault: FieldError) -> FieldError:
    field = fault.field if fault.field == FIELD else f"{FIELD}.{fault.field}"
    return FieldError(field, fault.code, fault.message)


def _job_faults(step: Step, at: str, bounds: Bounds) -> Iterator[FieldError]:
    context: Mapping[str, Any] = step.said.get("context", {})
    is_whole = step.kind == shapes.JOB and not any(references(context, ""))
    job = Submission(step.said["type"], dict(context) if is_whole else {})
    for fault in faults_of_part(job, bounds):
        # Params come with the run, and what lists have with each item.
        if is_whole or not fault.field.startswith("context"):
            yield FieldError(f"{at}.{fault.field}", fault.code, fault.message)


def _task_faults(
    step: Step,
    at: str,
    executors: Mapping[str, Executor],
    usable: Callable[[str], Template],
) -> Iterator[FieldError]:
    yield from _executor_faults(step, at, executors)
    if "template" in step.said:
        yield from _template_faults(step, at, usable)


def _executor_faults(
    step: Step, at: str, executors: Mapping[str, Executor]
) -> Iterator[FieldError]:
    executor = executors.get(step.said["executor"])
    if executor is None:
        message = _("There is no person or group {name!r}.", name=step.said["executor"][:80])
        yield FieldError(f"{at}.executor", "invalid", message)
        return
    fields = {**as_fields(step, {}), "executor": executor}
    try:
        validate(OnceTask, fields, current=None)
    except PlatformError as error:
        for each in error.errors:
            field = _NAMES.get(each.field, each.field)
            yield FieldError(f"{at}.{field}", each.code, each.message)


def _template_faults(
    step: Step, at: str, usable: Callable[[str], Template]
) -> Iterator[FieldError]:
    try:
        template = usable(step.said["template"])
        params = step.said.get("params", {})
        if not any(references(params, "")):
            check_params(template.schema, params)
    except PlatformError as error:
        for each in error.errors:
            yield FieldError(f"{at}.{each.field}", each.code, each.message)


def _executors(definition: Definition, sides: Sides) -> dict[str, Executor]:
    """Read the executors of the definition that are within the bounds, by name."""
    names = sides.executors_among(definition.executors)
    return {row.name: row for row in Executor.objects.filter(name__in=names)}
