"""Starting runs: in the caller's transaction, like the submission of a job.

from apps.flows.services.start import start

with transaction.atomic():
    order.save()
    start("night", {"shop": "Bern"}, key="2026-11-26")
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction

from apps.common import clock, ids
from apps.common.db import transactional
from apps.common.errors import Conflict, FieldError, Invalid, Mistakes, NotFound
from apps.common.json.schema import check_params
from apps.common.json_rules import check_json
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.common.rows import insert_rows
from apps.common.shaped import Misshapen
from apps.flows.models import MAX_KEY, MAX_NAME, MAX_TRACE, Flow, FlowRun, FlowStep, is_within
from apps.flows.rules.definition import Definition
from apps.flows.services.advance import Advance
from apps.flows.services.check import check
from apps.jobs.models import Bounds
from apps.jobs.rules.submission import Submitted
from apps.jobs.services.request import Request
from apps.jobs.services.submit_check import PLATFORM


class Started(NamedTuple):
    """The run, or with `created` False the open one of the same flow and key."""

    id: int
    created: bool
    status: str


@transactional
def start(
    flow: str = "",
    params: Mapping[str, Any] | None = None,
    *,
    definition: Any = None,
    key: str = "",
    by: str = "",
    trace_id: str = "",
    bounds: Bounds = PLATFORM,
) -> Started:
    """Start a run of the newest version of a flow, or of a definition of its own, and begin its
    first steps.

    With a `key` at most one run of the flow is open: a repeat returns that one. `by` is the caller,
    who reaches types and executors within `bounds` only. Invalid names what is wrong with the
    params and the definition; a flow that reaches further counts as unknown.
    """
    mistakes = Mistakes()
    with mistakes:
        _check_names(key, trace_id)
    version = 0
    with mistakes:
        if definition is None:
            row = usable_flow(flow, bounds)
            read, version = row.read, row.version
        else:
            read = check(definition, bounds=bounds)
    if not mistakes:
        with mistakes:
            check_json(dict(params or {}), field="params")
            check_params(read.params, params or {})
    mistakes.raise_all()
    run = _run(flow, version, read, params or {}, key=key, by=by, trace_id=trace_id)
    if run.open_key is not None and (twin := _twin(run.open_key, bounds)):
        return twin
    try:
        # Nothing but its key can be taken.
        with nullcontext() if run.open_key is None else transaction.atomic():
            steps = _insert(run, read)
    except IntegrityError:
        # Somebody started one of the same key just now.
        twin = None if run.open_key is None else _twin(run.open_key, bounds)
        if twin is None:
            raise
        return twin
    begun = Advance(run, actor=by, steps=steps)
    begun.note("started", to_state=run.status)
    begun.go()
    return Started(run.pk, True, run.status)


def start_once(request: Request, **wanted: Any) -> Started:
    """As `start`; a repeat of the request gets the first answer, whatever has become of the run."""
    earlier = request.earlier()
    if earlier is None:
        try:
            return _start_once(request, wanted)
        except IntegrityError:
            # The same request came twice at once, and the other one was faster.
            earlier = request.earlier()
            if earlier is None:
                raise
    return Started(*earlier.submitted[0][:3])


@transactional
def _start_once(request: Request, wanted: Mapping[str, Any]) -> Started:
    made = start(**wanted)
    request.keep_answer([Submitted(*made)])
    return made


def usable_flow(name: str, bounds: Bounds) -> Flow:
    """The newest version of the flow; Invalid when there is none within the bounds, or it is
    retired."""
    row = Flow.objects.latest_of(name) if is_key(name, MAX_NAME) else None
    if row is None or not is_within(row.read, bounds):
        raise Invalid.field("flow", _("There is no flow {name!r}.", name=name[:80]))
    if row.status != Flow.Status.ACTIVE:
        message = _(
            "{flow} is retired; start another flow, or make a version of it.", flow=str(row)
        )
        raise Invalid.field("flow", message)
    if isinstance(row.definition, Misshapen):
        message = _("The definition of {flow} cannot be read; make a version of it.", flow=str(row))
        raise Invalid.field("flow", message)
    return row


def _check_names(key: str, trace_id: str) -> None:
    errors = [
        FieldError(
            name,
            "invalid",
            _(
                "{text!r} is no {name}; use at most {limit} letters, digits and "
                "_ . : @ / + -, without blanks.",
                text=str(text)[:60],
                name=name,
                limit=limit,
            ),
        )
        for name, text, limit in (("key", key, MAX_KEY), ("trace_id", trace_id, MAX_TRACE))
        if text and not is_key(text, limit)
    ]
    if errors:
        raise Invalid(errors[0].message, errors=errors)


def _run(
    flow: str, version: int, read: Definition, params: Mapping[str, Any], **said: str
) -> FlowRun:
    number = ids.next_id()
    run = FlowRun(
        id=number,
        flow=flow,
        flow_version=version,
        definition=read.said,
        params=dict(params),
        status=FlowRun.Status.RUNNING.value,
        key=said["key"],
        started_by=said["by"][:160],
        trace_id=said["trace_id"] or f"flow-{number}",
        created_at=clock.now(),
    )
    run.open_key = run.key_while_open
    return run


def _twin(open_key: str, bounds: Bounds) -> Started | None:
    """The open run of the key; Conflict when it is out of reach."""
    run = FlowRun.objects.filter(open_key=open_key).first()
    if run is None:
        return None
    if not is_within(run.read, bounds):
        message = _("A run of this key is open that is out of reach here; use another key.")
        raise Conflict.field("key", message)
    return Started(run.pk, False, run.status)


def _insert(run: FlowRun, read: Definition) -> list[FlowStep]:
    """Make the rows of the run; those of its steps."""
    run.save(force_insert=True)
    numbers = ids.next_ids(len(read.steps))
    made = [
        {
            "id": number,
            "run_id": run.pk,
            "name": step.name,
            "kind": step.kind,
            "target": step.target,
        }
        for number, step in zip(numbers, read.steps.values(), strict=True)
    ]
    insert_rows(FlowStep, made)
    return [FlowStep(**columns) for columns in made]


# --- reading --------------------------------------------------------------------------------------
def find_run(number: int, *, bounds: Bounds = PLATFORM) -> FlowRun:
    """The run; NotFound also when it reaches beyond the bounds."""
    run = FlowRun.objects.filter(pk=number).first() if 0 < number < 2**63 else None
    if run is None or not is_within(run.read, bounds):
        raise NotFound(_("There is no flow run {number}.", number=number))
    return run


def find_step(run: FlowRun, name: str) -> FlowStep:
    """A step of the run by its name; NotFound for none."""
    row = FlowStep.objects.filter(run=run.pk, name=name).first() if is_key(name, 64) else None
    if row is None:
        raise NotFound(_("Run {number} has no step {name!r}.", number=run.pk, name=name[:64]))
    return row
