"""The calls of asyncflow about types of tasks: their settings, listed and changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.asyncflow import dialects as d
from apps.asyncflow.call_request import CallRequest, spellings_of
from apps.asyncflow.conf import conf
from apps.asyncflow.translate import (
    Refused,
    number_of,
    settings_of,
    text_of,
)
from apps.common.errors import Invalid
from apps.jobs.models import JobType
from apps.jobs.rules.type_snapshot import FREE_STAGES
from apps.jobs.services import types
from apps.jobs.services.type_snapshots import type_snapshots


def list_settings(request: CallRequest) -> list[dict[str, Any]]:
    """The types that workers of this key may hold: those it is bound to, else those that only
    workers over HTTP run."""
    bound = request.caller.types
    rows = JobType.objects.order_by("name")
    rows = rows.filter(handler="", pool=False) if bound is None else rows.filter(name__in=bound)
    return [
        settings_of(
            row.snapshot,
            request.dialect,
            interval=conf.ASYNCFLOW_INTERVAL,
            times=(row.created_at, row.updated_at),
        )
        for row in rows
    ]


def register_type(request: CallRequest) -> None:
    name = text_of(request.values, "tasktype")
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    if any(known.lower() == name.lower() for known in type_snapshots(max_age=0)):
        raise Refused(d.REGISTERED, f"The type {name[:80]} is registered already.")
    _make(request, name, {})


def configure(request: CallRequest) -> None:
    """Change the settings of the type of exactly that name; an unknown one is registered with
    them."""
    values = request.values
    changes = {
        "batch_limit": number_of(values, "schedulelimit"),
        "max_processing_seconds": number_of(values, "maxprocessingtime"),
        "retry_delay_seconds": number_of(values, "retryinterval"),
        "retry_max_seconds": number_of(values, "maxretryinterval"),
    }
    tries = number_of(values, "maxretrynum")
    changes["max_attempts"] = None if tries is None else tries + 1
    hold_answer = {name: value for name, value in changes.items() if value is not None}
    name = text_of(values, "tasktype")
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    known = spellings_of(request, name, 0)
    if name in known:
        row = types.find(name, bound=request.caller.types)
        types.update_type(job_type=row, changes=hold_answer, actor=request.actor)
    elif known:
        raise Refused(d.REGISTERED, f"The type is called {min(known)}; change it by that name.")
    else:
        _make(request, name, hold_answer)


def _make(request: CallRequest, name: str, settings: Mapping[str, Any]) -> None:
    if not request.caller.may_use(name):
        raise Invalid(f"This API key is not bound to the type {name[:80]}.")
    types.create_type(name=name, actor=request.actor, stages=[FREE_STAGES], **settings)
