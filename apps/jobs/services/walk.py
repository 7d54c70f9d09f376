"""Goes through a table by primary key, some rows at a time, on from where it stopped last."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.leases import load_position, save_position

# After each chunk it rests three times as long as that took: a quarter of a connection at most.
RESTS = 3
LONGEST_REST = 1.0


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
    place = load_position(name) or _start()
    taken = 0
    try:
        while clock.now() < until:
            again_at = datetime.fromisoformat(place["begun"]) + again_after
            if place["ended"] and again_at <= clock.now():
                place = _start()
            begun = time.monotonic()
            chunk = take(place["after"])
            taken += chunk.taken
            place["after"] = chunk.last
            place["ended"] = place["ended"] or chunk.is_end
            if chunk.is_end:
                break
            if chunk.taken:
                time.sleep(min(LONGEST_REST, RESTS * (time.monotonic() - begun)))
    finally:
        save_position(name, place)
    return taken


def _start() -> dict[str, Any]:
    return {"after": 0, "begun": clock.now().isoformat(), "ended": False}
