"""Rows of which a version never changes: an edit makes the next one of the same name."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models

from apps.common import clock
from apps.common.errors import Conflict, Invalid
from apps.common.messages import Message as _
from apps.journal.models import Recorded
from apps.journal.services.edit import record_edit

RowT = TypeVar("RowT", bound=models.Model)
# With the name: what the database says when two make the next version at once.
RACED = _("Somebody else made a version of {name} just now; read it and repeat.")


def newest_of(
    rows: models.QuerySet[RowT], name: str, *, new: bool, based_on: int | None
) -> tuple[RowT | None, int]:
    """The newest version of that name, locked, with its number; None and 0 before the first.

    With `new`, Invalid when there is one; with `based_on`, Conflict when that is not the newest.
    """
    latest = rows.select_for_update().filter(name=name).order_by("-version").first()
    if latest is not None and new:
        message = _("{name} exists already; PUT makes its next version.", name=name)
        raise Invalid.field("name", message)
    newest: int = getattr(latest, "version", 0)
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


def set_status(row: Any, status: str, event: str, *, actor: str, reason: str) -> bool:
    """Give a version this status, with an entry of the event; False when it already had it."""
    rows = type(row)._default_manager.filter(pk=row.pk).exclude(status=status)
    moved = rows.update(status=status)
    if moved:
        before, row.status = row.status, status
        kept: Recorded = row
        record_edit(
            kept,
            event,
            now=clock.now(),
            actor=actor,
            reason=reason,
            before={"status": before},
            after={"status": status},
        )
    return bool(moved)
