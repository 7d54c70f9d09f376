"""What keeps an executor from being deleted: the one table of what names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Model, QuerySet

from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    OperatorScope,
    RotateTask,
)
from apps.dispatch.rules import life

# A busy executor has a million dispatches.
MAX_COUNTED = 1000
INSTEAD = _("Or disable it: it then gets no new tasks.")


@dataclass(frozen=True)
class Kind:
    """Rows that name an executor, the sentence that counts them and says what to do first, and
    the model whose list in the admin shows them with these filters."""

    rows: QuerySet[Any]
    sentence: Message
    model: type[Model]
    filters: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> Message | None:
        """The sentence with how many there are now, `1000+` beyond that; None without any."""
        count = len(self.rows.values_list("pk")[: MAX_COUNTED + 1])
        shown = f"{MAX_COUNTED}+" if count > MAX_COUNTED else count
        return Message(self.sentence.template, count=shown) if count else None


def blockers(executor: Executor) -> list[tuple[Kind, Message]]:
    """The kinds that name the executor now, each with its sentence; empty when none does."""
    return [(kind, counted) for kind in kinds(executor) if (counted := kind.counted)]


def kinds(executor: Executor) -> Iterator[Kind]:
    """Every kind of rows that may name the executor, but for its own memberships, which go along
    with it."""
    own = {"executor": executor.name}
    deleted = {**own, "status": life.DELETED}
    once, rotate = (model.objects.filter(executor=executor) for model in (OnceTask, RotateTask))
    yield Kind(
        once.not_deleted(),
        _("Once tasks addressed to it: {count}; address them to another executor first."),
        OnceTask,
        own,
    )
    yield Kind(
        rotate.not_deleted(),
        _("Rotations addressed to it: {count}; address them to another executor first."),
        RotateTask,
        own,
    )
    yield Kind(
        once.filter(status=life.DELETED),
        _("Deleted once tasks that were addressed to it: {count}; they stay for TASK_RETENTION."),
        OnceTask,
        deleted,
    )
    yield Kind(
        rotate.filter(status=life.DELETED),
        _("Deleted rotations that were addressed to it: {count}; they stay for TASK_RETENTION."),
        RotateTask,
        deleted,
    )
    yield Kind(
        ArchivedTask.objects.filter(executor=executor),
        _("Archived tasks that were addressed to it: {count}; they stay for TASK_RETENTION."),
        ArchivedTask,
        own,
    )
    yield Kind(
        Dispatch.objects.filter(executor=executor),
        _("Dispatches that were made to it: {count}; they stay for DISPATCH_RETENTION."),
        Dispatch,
        own,
    )
    yield Kind(
        ArchivedDispatch.objects.filter(executor=executor),
        _("Archived dispatches that were made to it: {count}; they stay for DISPATCH_RETENTION."),
        ArchivedDispatch,
        own,
    )
    yield Kind(
        Membership.objects.filter(group=executor),
        _("Users that are its members: {count}; remove them from the group first."),
        Executor,
        {"group": executor.name},
    )
    # Without any scope left they would see nothing at all, and nobody would know why.
    yield Kind(
        OperatorScope.objects.filter(executor=executor),
        _("Operators that are limited to it: {count}; change their limits first."),
        OperatorScope,
    )
