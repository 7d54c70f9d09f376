"""The rows that keep an executor from being deleted: the one table of what names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Model, Q

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
    """Rows of the model that name an executor in a column, and the sentence that counts them and
    says what to do first. The list of `listed`, else of the model, shows them in the admin by that
    name and these filters."""

    model: type[Model]
    sentence: Message
    condition: Q = field(default_factory=Q)
    filters: Mapping[str, str] = field(default_factory=dict)
    column: str = "executor"
    listed: type[Model] | None = None

    def counted(self, executor: Executor) -> Message | None:
        """The sentence with how many there are now, `1000+` beyond that; None without any."""
        rows = self.model._default_manager.filter(self.condition, **{self.column: executor})
        count = len(rows.values_list("pk")[: MAX_COUNTED + 1])
        shown = f"{MAX_COUNTED}+" if count > MAX_COUNTED else count
        return Message(self.sentence.template, count=shown) if count else None


_DELETED = {"status": life.DELETED}
# Every kind of rows that may name an executor, but for its own memberships, which go along with it.
KINDS = (
    Kind(
        OnceTask,
        _("Once tasks addressed to it: {count}; address them to somebody else first."),
        ~Q(**_DELETED),
    ),
    Kind(
        RotateTask,
        _("Repeating tasks addressed to it: {count}; address them to somebody else first."),
        ~Q(**_DELETED),
    ),
    Kind(
        OnceTask,
        _("Deleted once tasks that were addressed to it: {count}; they stay for TASK_RETENTION."),
        Q(**_DELETED),
        _DELETED,
    ),
    Kind(
        RotateTask,
        _(
            "Deleted repeating tasks that were addressed to it: {count}; they stay for "
            "TASK_RETENTION."
        ),
        Q(**_DELETED),
        _DELETED,
    ),
    Kind(
        ArchivedTask,
        _("Older tasks that were addressed to it: {count}; they stay for TASK_RETENTION."),
    ),
    Kind(
        Dispatch, _("Dispatches that were made to it: {count}; they stay for DISPATCH_RETENTION.")
    ),
    Kind(
        ArchivedDispatch,
        _("Older dispatches that were made to it: {count}; they stay for DISPATCH_RETENTION."),
    ),
    Kind(
        Membership,
        _("Users that are its members: {count}; remove them from the group first."),
        column="group",
        listed=Executor,
    ),
    # Without any scope left they would see nothing at all, and nobody would know why.
    Kind(OperatorScope, _("Operators that are limited to it: {count}; change their limits first.")),
)


def blockers(executor: Executor) -> list[tuple[Kind, Message]]:
    """The kinds that name the executor now, each with its sentence; empty when none does."""
    return [(kind, counted) for kind in KINDS if (counted := kind.counted(executor))]
