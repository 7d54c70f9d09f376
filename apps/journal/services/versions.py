"""Rows of which a version never changes: an edit makes the next one of the same name."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.journal.models import NamedVersion
from apps.journal.services.edit import record_edit, unless_taken

RowT = TypeVar("RowT", bound=NamedVersion)


def newest_of(
    rows: models.QuerySet[RowT], name: str, *, new: bool, based_on: int | None
) -> tuple[RowT | None, int]:
    """The newest version of that name, locked, with its number; None and 0 before the first.

    Conflict with `new` when there is one, and with `based_on` when that is not the newest.
    """
    latest = rows.select_for_update().filter(name=name).order_by("-version").first()
    if latest is not None and new:
        message = _("{name} exists already; PUT makes its next version.", name=name)
        raise Conflict.field("name", message)
    newest = 0 if latest is None else latest.version
    if based_on is not None and based_on != newest:
        raise Conflict(
            _(
                "{name} has version {newest} by now, and this one was made from version "
                "{based_on}; read the newest and repeat your change.",
                name=name,
                newest=newest,
                based_on=based_on,
            )
        )
    return latest, newest


def add_version(kind: type[RowT], name: str, number: int, *, actor: str, **fields: Any) -> RowT:
    """The version of that number, with its entry; Conflict when somebody made it just now."""
    now = clock.now()
    raced = _("Somebody else made a version of {name} just now; read it and repeat.", name=name)
    with unless_taken(raced):
        row = kind._default_manager.create(
            name=name, version=number, created_at=now, created_by=actor[:160], **fields
        )
    record_edit(row, f"{_kind(row)}_version", now=now, actor=actor, after={"version": number})
    return row


@transactional
def set_status(row: NamedVersion, status: str, *, actor: str, reason: str = "") -> bool:
    """Retire a version or make it active again; False when it already was."""
    rows = type(row)._default_manager.filter(pk=row.pk).exclude(status=status)
    moved = rows.update(status=status)
    if moved:
        before, row.status = row.status, status
        record_edit(
            row,
            f"{_kind(row)}_status",
            now=clock.now(),
            actor=actor,
            reason=reason,
            before={"status": before},
            after={"status": status},
        )
    return bool(moved)


def _kind(row: NamedVersion) -> str:
    return str(row._meta.model_name)
