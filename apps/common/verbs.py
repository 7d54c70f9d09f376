"""Verbs: the acts of people and programs on rows, one by one or many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

from apps.common.errors import FieldError
from apps.common.messages import Message
from apps.common.messages import Message as _

# Values of columns, or of fields, by name.
Values: TypeAlias = Mapping[str, Any]


class Verb:
    """One act on rows of a kind: the permission for it, the rows that it changes, and their new
    values. `facts` are the columns of a row by name, `params` the fields that were given.

    Lists, bulk runs with their plans and REST of bulk runs read it here. Buttons for one row have
    words and questions of their own, because they ask about this one.
    """

    name: ClassVar[str]
    words: ClassVar[Message]
    permission: str
    # The columns by which it is decided whether a row is left out.
    columns: tuple[str, ...]
    fields: ClassVar[tuple[str, ...]] = ()
    # It ends work, or cannot be taken back.
    is_dangerous: ClassVar[bool] = False
    # Its name in the journal.
    event: ClassVar[str]
    # Whether an undo gives the rows back what they had; `undo` says how, or why not.
    is_undone: ClassVar[bool] = True
    undo: ClassVar[Message]

    def needed(self, params: Values) -> tuple[str, ...]:
        """The fields that must be given."""
        return self.fields

    def faults(self, params: Values, now: datetime) -> Iterator[FieldError]:
        """The mistakes in the fields."""
        for name in sorted(params.keys() - {*self.fields}):
            text = _("{verb} takes no {name}.", verb=self.name, name=name)
            yield FieldError(name, "unknown_field", text)
        yield from self.wrong(params, now)

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        """The mistakes in the values of its own fields."""
        yield from ()

    def why_not(self, facts: Values, params: Values, now: datetime) -> str | None:
        """Why a row is left out; None when it is changed. Without params a verb that needs some is
        judged by the state alone."""
        raise NotImplementedError(f"{type(self).__name__} must define why_not()")

    def note(self, facts: Values) -> Message | None:
        """A note on the outcome of a changed row; None for none."""
        return None

    def sample(self, facts: Values, params: Values) -> Message:
        """The change of a row: `priority 0 → 40`, `scheduled → cancelled`."""
        raise NotImplementedError(f"{type(self).__name__} must define sample()")


class Undo(Verb):
    """The undo of another verb, for those who may use that verb, in rows that have not changed
    since."""

    name, words = "undo", _("Undo")
    columns = ()
    fields = ("verb",)
    is_undone, undo = False, _("Do it again instead.")

    def __init__(self, of: Verb) -> None:
        self.of, self.permission = of, of.permission

    def why_not(self, facts: Values, params: Values, now: datetime) -> str | None:
        # The entries of the rows say it.
        return None

    def sample(self, facts: Values, params: Values) -> Message:
        return self.of.undo


VerbT = TypeVar("VerbT", bound=Verb)


def by_name(*verbs: VerbT) -> dict[str, VerbT]:
    """The verbs of a kind in their order on pages."""
    return {verb.name: verb for verb in verbs}
