"""What definitions above an app name of its rows: a flow names job types, people and templates, and
no column refers to them. Who is above registers who asks there; whoever deletes asks first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from apps.common.messages import Message, joined
from apps.common.messages import Message as _

JOB_TYPE, EXECUTOR, TEMPLATE = "job_type", "executor", "template"
Asked = Callable[[str], Message | None]

_asked: dict[str, list[Asked]] = defaultdict(list)


def register(kind: str, ask: Asked) -> None:
    """Have `ask` called with the name of a row of the kind that is to be deleted: it says who uses
    it and what to do first, or None."""
    _asked[kind].append(ask)


def of(kind: str, name: str) -> list[Message]:
    """The sentences of those who use the row; empty when nobody does."""
    return [said for ask in _asked[kind] if (said := ask(name)) is not None]


def refusal(row: str, used: Sequence[Message]) -> Message:
    """Why a row that is used stays, with what `of` says of it."""
    return _("{row} cannot be deleted yet: {what}", row=row, what=joined(used))
