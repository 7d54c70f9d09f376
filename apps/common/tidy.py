"""Small tables: what nobody needs any more goes from each, some rows at a time, in one sweep.

Each app registers its own at start. Tables that grow with the work have sweeps of their own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from apps.common import clock
from apps.common.db import apart, repeatable
from apps.common.models import SweepLease

SWEEP = "common.tidy"
# Rows that go at once.
CHUNK = 500
# After each chunk a sweep rests twice as long as that took: a third of a connection at most.
_RESTS = 2
LONGEST_REST = 1.0
# A sweep that has not run for so long is none any more, such as that of a removed sink.
_LEASES_KEPT = timedelta(days=30)

# Removes at most CHUNK rows that are over at the instant; returns how many.
Forget = Callable[[datetime], int]

_small: dict[str, Forget] = {}


def register(name: str, forget: Forget) -> None:
    """Have the rows of a small table removed; `name` says in the log which."""
    _small[name] = forget


def tidy(*, until: datetime) -> Counter[str]:
    """Remove what is over from all small tables; returns how many rows by name.

    Stops between two chunks when the clock has passed `until`. The tables take turns, so none
    delays the others.
    """
    removed: Counter[str] = Counter()
    waiting = list(_small.items())
    while waiting and clock.now() < until:
        name, forget = waiting.pop(0)
        begun = time.monotonic()
        gone = 0
        with apart(f"{SWEEP}: {name}"):
            gone = forget(clock.now())
        removed[name] += gone
        if gone == CHUNK:
            waiting.append((name, forget))
        if gone:
            rest(begun)
    return +removed


def rest(begun: float) -> None:
    """Give way to others after a chunk of any sweep, which began at this monotonic second."""
    time.sleep(min(LONGEST_REST, _RESTS * (time.monotonic() - begun)))


@repeatable
def remove(rows: QuerySet[Any, Any]) -> int:
    """Remove the first CHUNK of the rows, which an index finds; returns how many."""
    keys = list(rows.values_list("pk", flat=True)[:CHUNK])
    if not keys:
        return 0
    rows.filter(pk__in=keys).delete()
    return len(keys)


@repeatable
def remove_oldest(rows: QuerySet[Any, Any], column: str, before: datetime) -> int:
    """Remove rows whose time in the column lies before the instant; returns how many.

    For tables without an index on it, whose keys grow with time: it reads the first CHUNK of keys.
    """
    oldest = list(rows.order_by("pk").values_list("pk", column)[:CHUNK])
    keys = [pk for pk, at in oldest if at < before]
    if keys:
        rows.filter(pk__in=keys).delete()
    return len(keys)


def forget_leases(now: datetime) -> int:
    """Remove the leases of sweeps that are no more and have no place to go on from."""
    return remove(
        SweepLease.objects.filter(
            finished_at__lt=now - _LEASES_KEPT, held_until=None, position__isnull=True
        )
    )


register("sweep leases", forget_leases)
