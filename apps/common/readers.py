"""Values of one kind, read from text in one way wherever it comes from: forms, addresses, REST,
files, commands. For what is none of the kind readers return None, because callers know best what to
write instead; times say it themselves.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, tzinfo

from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.common.zones import first_instant

# The texts that KeyField stores.
KEY_PATTERN = r"[A-Za-z0-9_.:@/+-]*"
MAX_NUMBER = 2**63 - 1

_as_key = re.compile(KEY_PATTERN).fullmatch
_as_number = re.compile(r"[0-9]{1,19}").fullmatch
_as_integer = re.compile(r"[+-]?[0-9]{1,19}").fullmatch


# --- names ----------------------------------------------------------------------------------------
def is_key(text: str, limit: int) -> bool:
    """Whether the text can name something: not empty, and a key of at most `limit` characters."""
    return 0 < len(text) <= limit and _as_key(text) is not None


def read_key(text: str) -> str | None:
    """The text when it can be a key (uid, gid, type), which may be empty."""
    return text if _as_key(text) else None


def fits_address(name: str) -> bool:
    """Whether an address can hold the name as one part: clients and proxies split at slashes and
    resolve `.` and `..`."""
    return "/" not in name and name.strip(".") != ""


# --- numbers --------------------------------------------------------------------------------------
def read_number(text: str) -> int | None:
    """A number that an id can be: digits, at most 63 bits."""
    number = int(text) if _as_number(text) else None
    return number if number is not None and number <= MAX_NUMBER else None


def read_id(text: str) -> int | None:
    """The number of a row as addresses of the API have it: without zeros before it, and not 0."""
    return None if text.startswith("0") else read_number(text)


def read_integer(text: str) -> int | None:
    """A whole number with or without a sign, of at most 19 digits."""
    return int(text) if _as_integer(text) else None


# --- days and times -------------------------------------------------------------------------------
def read_day(text: str) -> date:
    """A day of the calendar, from 1970 to 2200; Invalid for any other text."""
    try:
        found = date.fromisoformat(text)
        if not 1970 <= found.year <= 2200:
            raise ValueError(text)
    except ValueError as error:
        raise Invalid(
            _("{text} is not a day; write for example 2026-03-31.", text=text[:40])
        ) from error
    return found


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
