"""Who uses a row that no column refers to: a flow names job types, people and templates in its
definition, a schedule its job type. The apps above register who looks for users; whoever deletes
such a row asks first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from apps.common.messages import Message, joined
from apps.common.messages import Message as _

JOB_TYPE, EXECUTOR, TEMPLATE = "job_type", "executor", "template"
Finder = Callable[[str], Message | None]

_finders: dict[str, list[Finder]] = defaultdict(list)


def register(kind: str, find: Finder) -> None:
    """Have `find` called with the name of a row of the kind that is to be deleted: it says who uses
    it and what to do first, or None."""
    _finders[kind].append(find)


def of(kind: str, name: str) -> list[Message]:
    """The sentences of those who use the row; empty when nobody does."""
    return [said for find in _finders[kind] if (said := find(name)) is not None]


def refusal(row: str, used: Sequence[Message]) -> Message:
    """Why a row that is used stays, with what `of` says of it."""
    return _("{row} cannot be deleted yet: {what}", row=row, what=joined(used))
