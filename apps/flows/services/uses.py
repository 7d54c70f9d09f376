"""The flows that name a job type, a person or group, or a template."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from apps.common import uses
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.models import Flow
from apps.flows.rules.definition import Definition

_THEY_NAME_IT = _("Flows whose steps name it: {count}; change or retire them first.")
_NAMES: dict[str, Callable[[Definition], Collection[str]]] = {
    uses.JOB_TYPE: lambda definition: definition.types,
    uses.EXECUTOR: lambda definition: definition.executors,
    uses.TEMPLATE: lambda definition: definition.templates,
}


def register() -> None:
    for kind in _NAMES:
        uses.register(kind, partial(_flows_with, kind))


def _flows_with(kind: str, name: str) -> Message | None:
    """What to do about the active flows whose steps name it."""
    rows = Flow.objects.newest().filter(status=Flow.Status.ACTIVE)
    count = sum(name in _NAMES[kind](row.read) for row in rows)
    # Their names may be none of the business of whoever asks.
    return Message(_THEY_NAME_IT, count=count) if count else None
