"""Journal entries whose ids were made at a given instant, and a sink that remembers its lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from apps.common import ids
from apps.journal.models import JournalEntry
from apps.journal.sinks import Line

_sequence = itertools.count()


def made(at: datetime, **fields: Any) -> JournalEntry:
    """An entry that is not written yet."""
    number = ids.lowest_id_at(at) + next(_sequence) % (1 << 20)
    fields = {"source": "job", "subject_id": 1, "event": "succeeded", **fields}
    return JournalEntry(id=number, at=at, **fields)


def commit(*entries: JournalEntry) -> list[int]:
    """Write them; their ids."""
    JournalEntry.objects.bulk_create(entries)
    return [entry.pk for entry in entries]


class Remembering:
    """Takes what `refuses` and `raises` allow."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.blocks: list[int] = []
        # Raised by the next deliveries, None to take one.
        self.raises: list[Exception | None] = []
        self.is_closed = False

    def deliver(self, lines: Sequence[Line]) -> None:
        self.blocks.append(len(lines))
        error = self.raises.pop(0) if self.raises else None
        if error is not None:
            raise error
        self.lines += lines

    def close(self) -> None:
        self.is_closed = True

    @property
    def ids(self) -> list[int]:
        return [line.id for line in self.lines]


def entries_of(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """What the lines say."""
    return [json.loads(line.text) for line in lines]
