"""Edits: a row's next version and its entry in the journal, in one transaction.

It is here because `common` knows no journal, and every app that edits may use this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from django.db import IntegrityError, transaction

from apps.common.errors import Conflict, FieldError, NotFound
from apps.common.json_rules import is_same
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.journal.models import Recorded, Versioned
from apps.journal.services import undo
from apps.journal.services.writing import Entry, write

RowT = TypeVar("RowT", bound=Versioned)


class Revision(Generic[RowT]):
    """The next version of a locked row: `fill` it, check `row`, then `write` it.

    Only what differs is written, and nothing when nothing does. `changed` names what was filled in
    and has another value now; the entry has these. Columns that follow from them are set on
    `row` itself.
    """

    def __init__(self, row: RowT) -> None:
        self.row = row
        self._stored = {
            field.name: getattr(row, field.attname) for field in row._meta.concrete_fields
        }
        self._before: dict[str, Any] = {}

    @classmethod
    def of(cls, row: RowT, version: int | None = None) -> Self:
        """Lock the row as it is now, and return its revision; see `take_version`."""
        return cls(take_version(row, version))

    def fill(self, changes: Mapping[str, Any]) -> list[str]:
        """Set the values on the row; returns `changed`."""
        for name, value in changes.items():
            self._before.setdefault(name, self.row.journal_value(name))
            if name in self._stored:
                setattr(self.row, name, value)
            else:
                getattr(self.row, name).set(value)
        return self.changed

    @property
    def changed(self) -> list[str]:
        others = self._before.keys() - self._stored.keys()
        names = [name for name in self._stored if name in self._before]
        return [name for name in (*names, *others) if self._differs(name)]

    @property
    def before(self) -> dict[str, Any]:
        """What is `changed`, as it was."""
        return {name: self._before[name] for name in self.changed}

    @property
    def after(self) -> dict[str, Any]:
        """What is `changed`, as it is now."""
        return {name: self.row.journal_value(name) for name in self.changed}

    def _differs(self, name: str) -> bool:
        if name not in self._stored:
            return bool(self._before[name] != self.row.journal_value(name))
        attname = self.row._meta.get_field(name).attname  # type: ignore[union-attr]
        return not is_same(self._stored[name], getattr(self.row, attname))

    def record(self) -> dict[str, Any]:
        """The data that the entry keeps for an undo, beside `before`; call this before `save`."""
        columns = [name for name in self._stored if self._differs(name)]
        recorded = {n for n in self._before if not self.row._meta.get_field(n).is_relation}
        was = {name: self._stored[name] for name in columns if name not in recorded}
        return undo.record(self.row.version + 1, was)

    def save(self, event: str, *, now: datetime, actor: str, **logged: Any) -> Entry | None:
        """Save what differs; returns the entry, which the caller writes."""
        columns = [name for name in self._stored if self._differs(name)]
        if not columns and not self.changed:
            return None
        stamps = self.row.next_version(now=now, actor=actor)
        self.row.save(update_fields=[*columns, *stamps])
        return edit_entry(
            self.row,
            event,
            now=now,
            actor=actor,
            before=self.before,
            after=self.after,
            **logged,
        )

    def write(self, event: str, **logged: Any) -> bool:
        """Save what differs with its entry; False when nothing does."""
        entry = self.save(event, **logged)
        write([] if entry is None else [entry])
        return entry is not None


def take_version(row: RowT, version: int | None = None) -> RowT:
    """The row as it is now, locked for the rest of the transaction.

    NotFound when it is gone; Conflict when the caller's version is not the current one. None means
    "whatever is there".
    """
    current = type(row)._default_manager.select_for_update().filter(pk=row.pk).first()
    if current is None:
        what = Message(row._meta.verbose_name_raw)
        raise NotFound(_("{what} {number} does not exist any more.", what=what, number=row.pk))
    require_version(current, version)
    return current


def require_version(current: Any, version: int | None) -> None:
    """Conflict when the caller's version is not that of the locked row."""
    if version is None or version == current.version:
        return
    raise Conflict(
        _(
            "It was changed by {actor} since you read it (version {version}, now {current}); "
            "read it again and repeat your change.",
            actor=getattr(current, "updated_by", "") or _("somebody else"),
            version=version,
            current=current.version,
        )
    )


def choice_faults(row: Recorded) -> Iterator[FieldError]:
    """The fields with choices whose value is none of them."""
    for field in row._meta.concrete_fields:
        value = getattr(row, field.attname)
        allowed = [word for word, _label in field.choices or ()]
        if allowed and value not in allowed:
            message = _(
                "{value!r} is no {field}; choose one of {allowed}.",
                value=value,
                field=field.name,
                allowed=", ".join(allowed),
            )
            yield FieldError(field.name, "invalid", message)


@contextmanager
def unless_taken(message: Message, *, field: str = "") -> Iterator[None]:
    """Conflict, of the field if it names one, when the database refuses what is written as it is
    taken or gone by now."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise (Conflict.field(field, message) if field else Conflict(message)) from error


def edit_entry(
    row: Recorded,
    event: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    **logged: Any,
) -> Entry:
    """The entry of an edit, with the changed values before and after, and `more` facts beside."""
    data = {"before": {**(before or {})}, "after": {**(after or {})}, **(more or {})}
    return entry_of(row, event, data=data, **logged)


def entry_of(row: Recorded, event: str, *, now: datetime, **columns: Any) -> Entry:
    """An entry about the row."""
    return Entry(
        at=now,
        source=row.journal_source,
        subject_id=row.pk,
        event=event,
        type_or_task=row.journal_name,
        executor=row.journal_executor,
        **columns,
    )


def record_edit(row: Recorded, event: str, **logged: Any) -> None:
    """Write the one entry of an edit; see `edit_entry`."""
    write([edit_entry(row, event, **logged)])
