"""What every edit of the plan does besides its change: check the version, tell the journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.db import models

from apps.common.errors import Conflict, NotFound
from apps.dispatch.models import Executor, Task, Template
from apps.journal import services as journal
from apps.journal.models import Source

RowT = TypeVar("RowT", bound=models.Model)


def take_version(model: type[RowT], pk: int, version: int | None) -> RowT:
    """The row, locked for the rest of the transaction.

    Conflict when the caller's version is not the current one; None means "whatever is there".
    """
    row = model._default_manager.select_for_update().filter(pk=pk).first()
    if row is None:
        raise NotFound(f"{model._meta.verbose_name} {pk} does not exist any more.")
    current: int = row.version  # type: ignore[attr-defined]
    if version is not None and version != current:
        by = getattr(row, "updated_by", "") or "somebody else"
        raise Conflict(
            f"It was changed by {by} since you read it (version {version}, now {current}); "
            "read it again and repeat your change."
        )
    return row


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
