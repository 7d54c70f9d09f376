"""Journal entries of edits of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.dispatch.models import Executor, Task, Template
from apps.journal import services as journal
from apps.journal.models import Source


def edit_entry(
    subject: Executor | Template | Task,
    event: str,
    *,
    now: datetime,
    actor: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    trace_id: str = "",
) -> journal.Entry:
    """The journal's entry for an edit of the plan, with the changed values before and after."""
    label, executor = str(subject._meta.model_name), ""
    if isinstance(subject, Task):
        label, executor = f"{subject.source}:{subject.pk}", subject.executor.name
    elif isinstance(subject, Executor):
        executor = subject.name
    return journal.Entry(
        at=now,
        source=Source.PLAN,
        subject_id=subject.pk,
        event=event,
        type_or_task=label,
        executor=executor,
        actor=actor,
        reason=reason,
        data={"before": dict(before or {}), "after": dict(after or {})},
        trace_id=trace_id,
    )


def record_edit(
    subject: Executor | Template | Task,
    event: str,
    *,
    now: datetime,
    actor: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write the one entry for an edit."""
    entry = edit_entry(
        subject, event, now=now, actor=actor, reason=reason, before=before, after=after
    )
    journal.write([entry])
