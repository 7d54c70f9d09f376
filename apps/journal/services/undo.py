"""The undo of acts: the entry of an act keeps the version that the act made of the row, and the
values that the row had.

It is here because every box writes these data into the journal. The service that changes rows also
gives them back the values they had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max

from apps.common import clock
from apps.common.errors import Conflict
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.journal.models import JournalEntry

# The key of the record in the data of an entry; and the event of the entry that undoes the act.
RECORD, UNDONE = "undo", "undone"
MOVED = _("has changed since")
# How long an act can be undone; a bulk run from its end on.
OFFERED_FOR = timedelta(minutes=10)
NO_RECORD = _("What it was before is not known.")


def record(version: int, was: Mapping[str, Any]) -> dict[str, Any]:
    """The data that an entry keeps for the undo of an act that brought the row to this version.
    `was` has the values by column, beside those that the entry has as `before`."""
    texts = {n: v.isoformat() if isinstance(v, datetime) else v for n, v in was.items()}
    return {RECORD: {"version": version, "was": texts}}


def last_entries(
    source: str, numbers: Collection[int], of: Mapping[str, Any]
) -> dict[int, JournalEntry]:
    """The last entry of each subject, by its number, that meets `of`, conditions on entries."""
    about = JournalEntry.objects.filter(source=source, subject_id__in=numbers, **of)
    return {entry.subject_id: entry for entry in about.defer("error").order_by("pk")}


def newest_of(source: str, numbers: Collection[int]) -> dict[int, int]:
    """The number of the newest entry of each subject, by its number."""
    about = JournalEntry.objects.filter(source=source, subject_id__in=numbers).order_by()
    return dict(about.values_list("subject_id").annotate(Max("pk"))) if numbers else {}


def act_of(source: str, number: int, actor: str, **of: str) -> int | None:
    """The number of the last entry about a subject if it is an act of this actor that is offered
    to be undone, else None. `of` are further conditions on entries."""
    about = JournalEntry.objects.filter(source=source, subject_id=number, **of)
    entry = about.only("at", "person", "event", "data").order_by("-pk").first()
    if entry is None or entry.person != actor or not is_undoable(entry):
        return None
    return entry.pk if is_offered(entry.at) else None


def is_undoable(entry: JournalEntry) -> bool:
    """Whether the entry keeps what the undo of its act needs, and is none itself."""
    return entry.event != UNDONE and RECORD in (entry.data or {})


def is_offered(at: datetime) -> bool:
    """Whether an act of that time can still be undone."""
    return clock.now() - at <= OFFERED_FOR


def late() -> Message:
    """Why an act cannot be undone after that time."""
    return _(
        "This was more than {count} minutes ago; change the rows anew.",
        count=OFFERED_FOR // timedelta(minutes=1),
    )


def values_before(
    entry: JournalEntry | None, version: int, *, is_newest: bool = False
) -> dict[str, Any]:
    """The values that the row had, as JSON by column; Conflict when the entry has no record, or the
    version of the row is another one than it made, unless it `is_newest` of a row whose changes
    all have entries."""
    data = (entry and entry.data) or {}
    kept = data.get(RECORD)
    if kept is None:
        raise Conflict(NO_RECORD)
    if kept["version"] != version and not is_newest:
        raise Conflict(MOVED)
    return {**(data.get("before") or {}), **kept["was"]}
