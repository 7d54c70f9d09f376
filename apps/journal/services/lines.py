"""Journal entries as sinks get them: a JSON object on one line, passwords and tokens masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection
from django.db.models import DateTimeField

from apps.common.db import fetch, table, time_text
from apps.common.masking import redact
from apps.common.messages import wire_text
from apps.journal.models import JournalEntry
from apps.journal.sinks import Line

BLOCK = 1_000
# The person is the actor once more.
_NAMES = [
    str(field.column) for field in JournalEntry._meta.concrete_fields if field.name != "person"
]
_TIMES = {
    str(field.column)
    for field in JournalEntry._meta.concrete_fields
    if isinstance(field, DateTimeField)
}
_AT = {name: position for position, name in enumerate(_NAMES)}
# The columns that may hold a secret.
_TEXTS = [_AT[name] for name in ("error", "reason")]


def lines_between(low: int, high: int) -> Iterator[list[Line]]:
    """The entries with ids in [low, high), ascending, in blocks of BLOCK at most."""
    while lines := next_lines(low, high):
        yield lines
        if len(lines) < BLOCK:
            return
        low = lines[-1].id + 1


def next_lines(low: int, high: int) -> list[Line]:
    """The first BLOCK of them."""
    names = ", ".join(map(_column, _NAMES))
    rows = fetch(
        f"SELECT {names} FROM {table(JournalEntry)} WHERE id >= %s AND id < %s "
        "ORDER BY id LIMIT %s",
        [low, high, BLOCK],
    )
    return [_line(row) for row in rows]


def _column(name: str) -> str:
    quoted = connection.ops.quote_name(name)
    return time_text(quoted) if name in _TIMES else quoted


def _line(row: Sequence[Any]) -> Line:
    values = list(row)
    values[_AT["at"]] = wire_text(values[_AT["at"]])
    for position in _TEXTS:
        values[position] = redact(values[position])
    data = values[_AT["data"]]
    values[_AT["data"]] = None if data is None else redact(json.loads(data))
    number, subject = values[_AT["id"]], values[_AT["subject_id"]]
    entry = dict(zip(_NAMES, values, strict=True))
    # Ids are text as everywhere outside: many programs know no integers of 63 bits.
    entry["id"], entry["subject_id"] = str(number), str(subject)
    return Line(number, subject, json.dumps(entry, separators=(",", ":")))
