"""Error groups: when each error was first and last seen, and the text of the newest one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.common import ids
from apps.common.chunks import chunks
from apps.common.db import fetch, placeholders, repeatable, table
from apps.common.rows import insert_values, update_rows
from apps.common.texts import begin_of
from apps.journal.models import JournalEntry, line_of
from apps.reports.models import ErrorGroup
from apps.reports.rules.tally import Cells, Error, widen

MAX_SAMPLE = 500
# The number of groups would otherwise grow without end where every error differs.
MAX_KEPT = 200_000
_AT_ONCE = 500
_SEEN = ("first_entry", "last_entry", "subject_id", "sample")


def note(cells: Iterable[Cells]) -> None:
    """Add the counted errors to their groups, in the transaction that stores the counts.

    Spans only widen, so calls may be repeated and come in any order.
    """
    spans: dict[Error, tuple[int, int]] = {}
    for each in cells:
        for error, (first, last) in each.spans().items():
            widen(spans, error, first, last)
    errors = sorted(spans)
    for part in chunks(errors, _AT_ONCE):
        _note({error: spans[error] for error in part})


def purge(before: datetime, goes_on: Callable[[], bool]) -> int:
    """Remove the groups last seen before an instant and all but the MAX_KEPT newest, some hundred
    at a time; returns the number removed."""
    first = ids.lowest_id_at(before)
    beyond = fetch(
        f"SELECT last_entry FROM {table(ErrorGroup)} ORDER BY last_entry DESC LIMIT 1 OFFSET %s",
        [MAX_KEPT],
    )
    if beyond:
        first = max(first, beyond[0][0] + 1)
    gone = 0
    while goes_on():
        old = ErrorGroup.objects.filter(last_entry__lt=first)
        numbers = list(old.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE])
        gone += repeatable(ErrorGroup.objects.filter(pk__in=numbers).delete)()[0]
        if len(numbers) < _AT_ONCE:
            break
    return gone


def _note(spans: dict[Error, tuple[int, int]]) -> None:
    known = _known(spans)
    for error, (_pk, *span, _subject, _sample) in known.items():
        widen(spans, error, *span)
    newer = [e for e, (_first, last) in spans.items() if e not in known or last > known[e][2]]
    texts = _texts([spans[error][1] for error in newer])
    seen = {error: (*spans[error], *texts[spans[error][1]]) for error in newer}
    # Late entries and rebuilds may move only the beginning.
    seen |= {
        error: (*spans[error], *rest)
        for error, (_pk, first, _last, *rest) in known.items()
        if error not in seen and spans[error][0] < first
    }
    insert_values(
        ErrorGroup,
        ("source", "type_or_task", "error_key", *_SEEN),
        [(*error, *values) for error, values in seen.items() if error not in known],
    )
    changes = {
        known[error][0]: dict(zip(_SEEN, values, strict=True))
        for error, values in seen.items()
        if error in known
    }
    update_rows(ErrorGroup, changes)


def _known(errors: Mapping[Error, Any]) -> dict[Error, tuple[Any, ...]]:
    """The existing groups: primary key, first, last, subject and sample."""
    keys = sorted({key for _source, _type, key in errors})
    rows = fetch(
        f"SELECT source, type_or_task, error_key, id, {', '.join(_SEEN)} "
        f"FROM {table(ErrorGroup)} WHERE error_key IN ({placeholders(len(keys))})",
        keys,
    )
    return {row[:3]: row[3:] for row in rows if row[:3] in errors}


def _texts(entries: Sequence[int]) -> dict[int, tuple[int, str]]:
    """The subject and the text of each of these entries."""
    if not entries:
        return {}
    rows = fetch(
        f"SELECT id, subject_id, error, data, reason, event FROM {table(JournalEntry)} "
        f"WHERE id IN ({placeholders(len(entries))})",
        entries,
    )
    return {number: (subject, _sample(*texts)) for number, subject, *texts in rows}


def _sample(error: str, data: str | None, reason: str, event: str) -> str:
    line = line_of(error, json.loads(data or "{}").get("summary"))
    return begin_of(line or reason or event, MAX_SAMPLE)
