"""The flows, and the open runs, that name a job type, a person or group, or a template."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from django.db.models import Exists, OuterRef, QuerySet

from apps.common import uses
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.rules.definition import Definition

_THEY_NAME_IT = _("Flows whose steps name it: {count}; change or retire them first.")
_THEY_WILL_NEED_IT = _(
    "Open runs of flows with steps for it that have not begun: {count}; wait for their end or stop "
    "them first."
)
_NAMES: dict[str, Callable[[Definition], Collection[str]]] = {
    uses.JOB_TYPE: lambda definition: definition.types,
    uses.EXECUTOR: lambda definition: definition.executors,
    uses.TEMPLATE: lambda definition: definition.templates,
}
_PROGRAMS = (FlowStep.Kind.JOB, FlowStep.Kind.JOBS)
_KINDS = {uses.JOB_TYPE: _PROGRAMS, uses.EXECUTOR: (FlowStep.Kind.TASK,)}


def register() -> None:
    for kind in _NAMES:
        uses.register(kind, partial(_flows_with, kind))
        uses.register(kind, partial(_runs_with, kind))


def _flows_with(kind: str, name: str) -> Message | None:
    """What to do about the active flows whose steps name it."""
    rows = Flow.objects.newest().filter(status=Flow.Status.ACTIVE)
    count = sum(name in _NAMES[kind](row.read) for row in rows)
    # Their names may be none of the business of whoever asks.
    return Message(_THEY_NAME_IT, count=count) if count else None


def _runs_with(kind: str, name: str) -> Message | None:
    """What to do about the runs that go on by another version, or of a flow that is retired."""
    if kind == uses.TEMPLATE:
        rows = _to_begin(kind=FlowStep.Kind.TASK).only("definition").iterator()
        count = sum(name in row.read.templates for row in rows)
    else:
        count = _to_begin(kind__in=_KINDS[kind], target=name).count()
    return Message(_THEY_WILL_NEED_IT, count=count) if count else None


def _to_begin(**wanted: object) -> QuerySet[FlowRun]:
    """The running runs that have such a step which has not begun."""
    steps = FlowStep.objects.filter(state=FlowStep.State.BLOCKED, run=OuterRef("pk"), **wanted)
    return FlowRun.objects.filter(Exists(steps), status=FlowRun.Status.RUNNING)
