"""What the entry of an act keeps, so that it can be taken back: the version that it made of the
row, and the values that the row had.

It is here because every box that keeps it writes it into the journal. Rows are given back what they
had by the service that changes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.journal.models import JournalEntry

# Of the data of an entry; and the event of the entry that takes it back.
RECORD, UNDONE = "undo", "undone"
MOVED = _("has changed since")
NO_RECORD = _("What it was before is not known.")


def record(version: int, was: Mapping[str, Any]) -> dict[str, Any]:
    """What the data of an entry keeps of a row that it brings to this version. `was` are the values
    by column, beside those that it tells as `before`."""
    told = {n: v.isoformat() if isinstance(v, datetime) else v for n, v in was.items()}
    return {RECORD: {"version": version, "was": told}}


def last_entries(
    source: str, numbers: Collection[int], of: Mapping[str, Any]
) -> dict[int, JournalEntry]:
    """Of each of the subjects the last entry that `of`, conditions on entries, means."""
    about = JournalEntry.objects.filter(source=source, subject_id__in=numbers, **of)
    return {entry.subject_id: entry for entry in about.defer("error").order_by("pk")}


def values_before(entry: JournalEntry | None, version: int) -> dict[str, Any]:
    """The values that the row had, as JSON by column; Conflict when its version is another one than
    the entry made, or the entry does not tell."""
    data = (entry and entry.data) or {}
    kept = data.get(RECORD)
    if kept is None:
        raise Conflict(NO_RECORD)
    if kept["version"] != version:
        raise Conflict(MOVED)
    return {**(data.get("before") or {}), **kept["was"]}
