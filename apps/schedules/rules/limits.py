"""The values that the fields of a schedule may have; the app jobs checks those of its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from apps.common.errors import FieldError
from apps.common.messages import Message as _
from apps.dispatch.rules.task import MAX_TITLE, end_faults, start_faults

__all__ = ["MAX_TITLE", "MISFIRES", "faults"]

# The missed runs that may be caught up.
MISFIRES = (1, 1000)


def faults(
    *, title: str, is_once: bool, start_at: datetime, end_at: datetime | None, misfire_limit: int
) -> Iterator[FieldError]:
    """The errors of these fields of a schedule."""
    if not title.strip() or len(title) > MAX_TITLE:
        yield _wrong("title", _("A title has 1 to {limit} characters.", limit=MAX_TITLE))
    yield from start_faults(start_at)
    if end_at is not None:
        yield from _end_faults(is_once, start_at, end_at)
    low, high = MISFIRES
    if not low <= misfire_limit <= high:
        message = _(
            "{value} is out of range: {field} is {low} to {high}.",
            value=misfire_limit,
            field="misfire_limit",
            low=low,
            high=high,
        )
        yield _wrong("misfire_limit", message)


def _end_faults(is_once: bool, start_at: datetime, end_at: datetime) -> Iterator[FieldError]:
    if is_once:
        yield _wrong("end_at", _("Without a rule it runs once, at its start; leave the end empty."))
    elif wrong := [*end_faults(end_at)]:
        yield from wrong
    elif end_at <= start_at:
        message = _(
            "The schedule ends before it starts; choose an end_at after start_at, or leave it "
            "empty."
        )
        yield _wrong("end_at", message)


def _wrong(field: str, message: str) -> FieldError:
    return FieldError(field, "invalid", message)
