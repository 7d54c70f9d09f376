"""Whether a definition can be carried out: its shape, and what it names; all errors at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from apps.common.errors import FieldError, PlatformError, refusal
from apps.common.json.schema import check_params
from apps.common.messages import Message as _
from apps.dispatch.models import Executor, OnceTask, Template
from apps.dispatch.services.templates import newest_of, usable
from apps.dispatch.services.validation import validate
from apps.flows.models import Sides
from apps.flows.rules import definition as rules
from apps.flows.rules import shapes
from apps.flows.rules.definition import Definition, Step
from apps.flows.rules.references import references
from apps.flows.services.people import as_fields
from apps.jobs.models import Bounds
from apps.jobs.rules.submission import Submission
from apps.jobs.services.submit_check import MAX_ERRORS, faults_of_parts

FIELD = "definition"
# What the fields of a task are called in a step.
_NAMES = {"dispatch_times": "quota"}
# A step with its place in the list of the definition.
Placed = tuple[int, Step]


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
    steps = sorted(
        ((places[name], step) for name, step in definition.steps.items()), key=itemgetter(0)
    )
    # Jobs of flows are nobody's.
    of_jobs = bounds if bounds.are_open else replace(bounds, types=sides.types, takes_nobodys=True)
    wrong = [
        *_job_faults(
            [each for each in steps if each[1].kind in (shapes.JOB, shapes.JOBS)], of_jobs
        ),
        *_task_faults([each for each in steps if each[1].kind == shapes.TASK], sides),
    ]
    found = [fault for _place, fault in sorted(wrong, key=itemgetter(0))]
    if found:
        raise _refusal(found)
    return definition


def _refusal(found: Sequence[FieldError]) -> PlatformError:
    # A small definition can have thousands.
    return refusal([*map(_below, found[:MAX_ERRORS])])


def _below(fault: FieldError) -> FieldError:
    field = fault.field if fault.field == FIELD else f"{FIELD}.{fault.field}"
    return FieldError(field, fault.code, fault.message)


def _job_faults(steps: Sequence[Placed], bounds: Bounds) -> Iterator[tuple[int, FieldError]]:
    jobs = [
        Submission(step.said["type"], _context(step) if _is_whole(step) else {})
        for _place, step in steps
    ]
    for (place, step), faults in zip(steps, faults_of_parts(jobs, bounds), strict=True):
        for fault in faults:
            # Params come with the run, and what lists have with each item.
            if _is_whole(step) or not fault.field.startswith("context"):
                field = f"steps[{place}].{fault.field}"
                yield place, FieldError(field, fault.code, fault.message)


def _context(step: Step) -> dict[str, Any]:
    return step.said.get("context", {})  # type: ignore[no-any-return]


def _is_whole(step: Step) -> bool:
    """Whether the context of its only job is known before a run."""
    return step.kind == shapes.JOB and not any(references(_context(step), ""))


def _task_faults(steps: Sequence[Placed], sides: Sides) -> Iterator[tuple[int, FieldError]]:
    names = sides.executors_among({step.said["executor"] for _place, step in steps})
    executors = {row.name: row for row in Executor.objects.filter(name__in=names)}
    templates = newest_of(step.said.get("template", "") for _place, step in steps)
    for place, step in steps:
        at = f"steps[{place}]"
        for fault in _executor_faults(step, at, executors):
            yield place, fault
        if "template" in step.said:
            for fault in _template_faults(step, at, templates):
                yield place, fault


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
    step: Step, at: str, templates: Mapping[str, Template]
) -> Iterator[FieldError]:
    name, params = step.said["template"], step.said.get("params", {})
    try:
        template = usable(name, templates.get(name))
        if not any(references(params, "")):
            check_params(template.schema, params)
    except PlatformError as error:
        for each in error.errors:
            yield FieldError(f"{at}.{each.field}", each.code, each.message)
