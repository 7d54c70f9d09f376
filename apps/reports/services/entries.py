"""Counting journal entries for the rollups: backwards, in blocks, as plain rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from apps.common import ids
from apps.common.db import fetch, table
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import first_id, minute_of, second_of
from apps.reports.rules.tally import Cells

BLOCK = 5000
# After this many entries the counts are written.
MAX_READ = 50_000

_SELECT = (
    "SELECT event, from_state, to_state, source, type_or_task, executor, worker, host, error_key, "
    "wait_ms, run_ms, id FROM {} WHERE id >= %s AND id < %s ORDER BY id DESC LIMIT %s"
)


class Read(NamedTuple):
    """The cells counted in [start, end), by the starts of buckets; empty buckets are left out."""

    start: int
    cells: Mapping[int, Cells]


def read_back(
    start: int, end: int, bucket_of: Callable[[int], int], *, goes_on: Callable[[], bool]
) -> Read:
    """Count the entries made in [start, end), the newest bucket first; epoch seconds.

    `bucket_of` returns the start of the bucket of a second. Stops early, after a whole bucket, when
    enough is read or `goes_on` returns False.
    """
    lowest, highest = first_id(start), first_id(end)
    cells: dict[int, Cells] = {}
    here, here_from = Cells(minute_of), 0
    read = 0
    while True:
        rows = fetch(_SELECT.format(table(JournalEntry)), [lowest, highest, BLOCK])
        rows.reverse()
        upper = len(rows)
        while upper:
            newest = rows[upper - 1][-1]
            if newest < here_from or not here.entries:
                if here.entries and (read >= MAX_READ or not goes_on()):
                    return Read(min(cells), cells)
                second = bucket_of(second_of(ids.made_at(newest)))
                here = cells[second] = Cells(minute_of)
                here_from = first_id(second)
            lower = bisect_left(rows, here_from, 0, upper, key=lambda row: row[-1])
            here.count(rows[lower:upper])
            read += upper - lower
            upper = lower
        if len(rows) < BLOCK:
            return Read(start, cells)
        highest = rows[0][-1]


def read_one(start: int, end: int) -> Cells:
    """Count the entries made in [start, end) together."""
    read = read_back(start, end, lambda _second: start, goes_on=lambda: True)
    return read.cells.get(start) or Cells(minute_of)
