"""Moves rows to the archive of their table by primary key, some at a time, on from where it stopped
last. A row is in exactly one of both tables: each way is one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection, models

from apps.common import clock
from apps.common.db import exclusive_lock, execute, fetch, placeholders, table
from apps.common.leases import load_position, save_position
from apps.common.tidy import rest


# --- going through a table ----------------------------------------------------------------------
class Chunk(NamedTuple):
    """How many rows were taken, the last id that was read, and whether no row follows that."""

    taken: int
    last: int
    is_end: bool


def walk(
    name: str, take: Callable[[int], Chunk], *, until: datetime, again_after: timedelta
) -> int:
    """Call `take` with the id to go on after; returns how many rows were taken.

    Stops between two chunks at the end of the table, or when the clock has passed `until`. The
    sweep of this name keeps the place, and the next call goes on there: with the rows that were
    too young before, and once `again_after` has passed with all rows.
    """
    place = load_position(name)
    taken = 0
    try:
        while clock.now() < until:
            chunk = step(place, take, again_after=again_after)
            taken += chunk.taken
            if chunk.is_end:
                break
    finally:
        save_position(name, place)
    return taken


def step(place: dict[str, Any], take: Callable[[int], Chunk], *, again_after: timedelta) -> Chunk:
    """Take one chunk and rest, unless it was the last; moves the place, which is {} at first.

    At the end of the table the place stays there until `again_after` after the begin.
    """
    if not {"after", "begun", "ended"} <= place.keys() or (
        place["ended"] and datetime.fromisoformat(place["begun"]) + again_after <= clock.now()
    ):
        place.update(after=0, begun=clock.now().isoformat(), ended=False)
    begun = time.monotonic()
    chunk = take(place["after"])
    place["after"] = chunk.last
    place["ended"] = place["ended"] or chunk.is_end
    if chunk.taken and not chunk.is_end:
        rest(begun)
    return chunk


# --- moving rows --------------------------------------------------------------------------------
def lock_still(
    model: type[models.Model], chosen: Sequence[int], guard: str, parameters: Sequence[Any]
) -> list[int]:
    """Lock the rows that still meet the guard (SQL) and that nobody else has locked, until the
    transaction ends; returns their ids, ascending."""
    rows = fetch(
        f"SELECT id FROM {table(model)} WHERE id IN ({placeholders(len(chosen))}) AND {guard} "
        f"ORDER BY id{exclusive_lock(skip_locked=True)}",
        [*chosen, *parameters],
    )
    return [number for (number,) in rows]


def carry(
    source: type[models.Model],
    target: type[models.Model],
    columns: Sequence[str],
    numbers: Sequence[int],
    values: Mapping[str, Any],
) -> None:
    """Carry locked rows over to the other table within the caller's transaction.

    `columns` are those that both tables have, `values` those that the target fills anew.
    RuntimeError, and all is to be rolled back, unless each row was made there and removed here.
    """
    copied = [_quoted(name) for name in columns if name not in values]
    filled = ", ".join([*copied, *map(_quoted, values)])
    chosen = f"WHERE id IN ({placeholders(len(numbers))})"
    made = execute(
        f"INSERT INTO {table(target)} ({filled}) "
        f"SELECT {', '.join([*copied, *['%s'] * len(values)])} FROM {table(source)} {chosen}",
        [*values.values(), *numbers],
    )
    gone = execute(f"DELETE FROM {table(source)} {chosen}", numbers)
    if not made == gone == len(numbers):
        raise RuntimeError(
            f"{len(numbers)} rows of {source._meta.db_table} to carry, but {made} made and {gone} "
            "removed"
        )


def _quoted(column: str) -> str:
    return connection.ops.quote_name(column)
