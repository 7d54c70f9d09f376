"""Times that people and programs write, read in one way wherever they come from."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime, tzinfo

from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.common.zones import first_instant


def read_instant(text: str, zone: tzinfo | None = None) -> datetime:
    """The instant, in UTC, of a time with an offset.

    With a zone also of a local time there, of which a date alone is the midnight: the first one
    when clocks show it twice. Invalid when it is no time, and when clocks skip it, with the next
    time that they show.
    """
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None and zone is None:
            raise ValueError(text)
    except ValueError as error:
        raise Invalid(
            _("{text} is not a time; write for example 2026-03-31T09:30:00Z.", text=text[:40])
        ) from error
    if zone is not None and at.tzinfo is None:
        return first_instant(zone, at)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        # At the ends of the calendar, where rules refuse it anyway.
        return at.replace(tzinfo=UTC)


def instant_argument(text: str) -> datetime:
    """`2026-11-20` or `2026-11-20T09:30:00+08:00` of a command, UTC without an offset."""
    try:
        return read_instant(text, UTC)
    except Invalid as error:
        raise ArgumentTypeError(error.detail) from error
