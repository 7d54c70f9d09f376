"""Writing the journal: one multi-row INSERT a batch, in the transaction it tells of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from apps.common import ids
from apps.common.db import insert_rows
from apps.journal.models import JournalEntry

MOST_ERROR_CHARACTERS = 16_000
MOST_REASON_CHARACTERS = 500

_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|'[^']*'|\"[^\"]*\"|\d+")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the journal; times in milliseconds, `data` any small JSON object."""

    at: datetime
    source: str
    subject_id: int
    event: str
    from_state: str = ""
    to_state: str = ""
    attempt: int | None = None
    type_or_task: str = ""
    executor: str = ""
    worker: str = ""
    host: str = ""
    actor: str = ""
    reason: str = ""
    wait_ms: int | None = None
    run_ms: int | None = None
    error: str = ""
    data: Mapping[str, Any] | None = None
    trace_id: str = ""


def write(entries: Sequence[Entry]) -> None:
    """Append the entries; must be called inside the transaction that changes the state."""
    if not entries:
        return
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("journal.write() belongs into the transaction of the change it tells of")
    insert_rows(
        JournalEntry,
        [
            _row(entry, number)
            for entry, number in zip(entries, ids.next_ids(len(entries)), strict=True)
        ],
    )


def write_once(entry: Entry, number: int) -> bool:
    """Append the entry under an id that was made before; False when it is there already.

    So a repeat is told by its id, also while the first one is not yet committed.
    """
    try:
        with transaction.atomic():
            insert_rows(JournalEntry, [_row(entry, number)])
    except IntegrityError:
        return False
    return True


def _row(entry: Entry, number: int) -> dict[str, Any]:
    error = entry.error[:MOST_ERROR_CHARACTERS]
    return {
        **vars(entry),
        "id": number,
        "error": error,
        "error_key": error_key(error),
        "reason": entry.reason[:MOST_REASON_CHARACTERS],
        "actor": entry.actor[:160],
    }


def error_key(error: str) -> str:
    """32 hex digits that equal errors share, whatever numbers, ids and quoted words they carry.

    The last line of a traceback names the error, so it alone counts. "" for no error.
    """
    lines = error.strip().splitlines()
    if not lines:
        return ""
    normal = _VARYING.sub("#", lines[-1].strip().lower())[:500]
    return hashlib.sha256(normal.encode()).hexdigest()[:32]
