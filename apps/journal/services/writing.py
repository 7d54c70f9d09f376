"""Writing the journal: one multi-row INSERT a batch, in the transaction of the change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db import transaction

from apps.common import ids
from apps.common.db import written
from apps.common.error_lines import line_of_text
from apps.common.masking import redact_line
from apps.common.rows import insert_values
from apps.common.texts import begin_of
from apps.journal.models import JournalEntry, Source

MAX_ERROR_CHARACTERS = 16_000
MAX_REASON_CHARACTERS = 500
MAX_ACTOR_CHARACTERS = 160

# The actors by whom the journal is searched: accounts and API keys.
_PERSONS = ("admin:", "key:")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|'[^']*'|\"[^\"]*\"|\d+")


@dataclass(kw_only=True, slots=True)
class Entry:
    """One line of the journal; times in milliseconds, `data` any small JSON object.

    `error_key` is that of `error` unless it is given, as for failures that only have a reason;
    `person` follows from `actor`.
    """

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
    error_key: str = ""
    data: Mapping[str, Any] | None = None
    trace_id: str = ""
    person: str | None = None


def write(entries: Sequence[Entry]) -> None:
    """Append the entries; must be called inside the transaction that changes the state."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("journal.write() belongs in the transaction of the change it records")
    if entries:
        _insert(entries, ids.next_ids(len(entries)))


def note(
    event: str,
    data: Mapping[str, Any],
    *,
    at: datetime,
    source: str = Source.PLAN,
    actor: str = "",
    reason: str = "",
) -> None:
    """Write one entry that is about no single row, in the transaction of the caller."""
    entry = Entry(
        at=at,
        source=source,
        subject_id=0,
        event=event,
        actor=actor,
        reason=reason,
        data=dict(data),
    )
    write([entry])


def _insert(entries: Sequence[Entry], numbers: Sequence[int]) -> None:
    for entry in entries:
        if entry.error and not entry.error_key:
            entry.error_key = error_key(entry.error)
        if entry.actor.startswith(_PERSONS):
            entry.person = entry.actor[:MAX_ACTOR_CHARACTERS]
    columns = zip(_DEFAULTS, zip(*map(_values_of, entries), strict=True), strict=True)
    # Columns that no entry fills cost nothing per row.
    filled = {
        name: _WRITTEN[name](column) if name in _WRITTEN else column
        for name, column in columns
        if column.count(_DEFAULTS[name]) < len(column)
    }
    rows = list(zip(numbers, *filled.values(), strict=True))
    insert_values(JournalEntry, ("id", *filled), rows)


_DEFAULTS = {each.name: each.default for each in fields(Entry)}
_values_of = attrgetter(*_DEFAULTS)
_Column = Iterable[Any]


def _instants(column: _Column) -> _Column:
    # Most entries of a batch are of one instant, and to write it takes longer than all the rest.
    texts = {at: written(at) for at in set(column)}
    return [texts[at] for at in column]


def _begin(limit: int) -> Callable[[_Column], _Column]:
    return lambda column: [begin_of(text, limit) for text in column]


def _json(column: _Column) -> _Column:
    # Entries that end alike share one object.
    texts = {id(data): None if data is None else json.dumps(data) for data in _once(column)}
    return [texts[id(data)] for data in column]


def _once(column: _Column) -> _Column:
    return {id(data): data for data in column}.values()


# How columns are given to the driver, and cut to what they hold.
_WRITTEN: Mapping[str, Callable[[_Column], _Column]] = {
    "at": _instants,
    "reason": _begin(MAX_REASON_CHARACTERS),
    "actor": lambda column: [text[:MAX_ACTOR_CHARACTERS] for text in column],
    "error": _begin(MAX_ERROR_CHARACTERS),
    "data": _json,
}


def error_key(error: str) -> str:
    """32 hex digits, the same for errors that differ only in numbers, ids and quoted words.

    The line that names the error alone counts, without its secrets, which would be guessed by the
    key. "" for no error.
    """
    line = line_of_text(begin_of(error, MAX_ERROR_CHARACTERS)) if error else ""
    if not line:
        return ""
    normal = _VARYING.sub("#", redact_line(line[:4_000]).lower())[:500]
    return hashlib.sha256(normal.encode()).hexdigest()[:32]
