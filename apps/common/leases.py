"""One process at a time for each sweep. A second beat, or ten, then do no harm.

Sweeps stay right without it, because every row is moved by a guard; it spares double work.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q

from apps.common import clock
from apps.common.db import fetch, instant, table
from apps.common.models import SweepLease
from apps.common.rows import ensure_row


@contextmanager
def sweep_lease(name: str, *, at_most: timedelta) -> Iterator[bool]:
    """Hold the turn at a sweep for `at_most`; yields False when another process has it.

    A process that dies loses the turn when the time is over.
    """
    now = clock.now()
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{secrets.token_hex(8)}"
    ensure_row(SweepLease, ["name"], {"name": name, "holder": "", "fence": 0})
    free = Q(held_until=None) | Q(held_until__lte=now)
    won = SweepLease.objects.filter(free, name=name).update(
        holder=holder, fence=F("fence") + 1, held_until=now + at_most, started_at=now
    )
    if not won:
        yield False
        return
    try:
        yield True
    finally:
        end = clock.now()
        SweepLease.objects.filter(name=name, holder=holder).update(
            held_until=None,
            finished_at=end,
            duration_ms=max(0, (end - now) // timedelta(milliseconds=1)),
        )


def load_position(name: str) -> dict[str, Any]:
    """Where the sweep wants to go on, as its last turn saved it; {} at first."""
    saved = SweepLease.objects.filter(name=name).values_list("position", flat=True).first()
    return saved or {}


def save_position(name: str, position: dict[str, Any]) -> None:
    """Keep where the next turn goes on. A turn that dies before only repeats what it looked at."""
    ensure_row(SweepLease, ["name"], {"name": name, "holder": "", "fence": 0})
    SweepLease.objects.filter(name=name).update(position=position)


def last_finished(name: str) -> datetime | None:
    """When the latest turn of the sweep that ended did so."""
    return SweepLease.objects.filter(name=name).values_list("finished_at", flat=True).first()


# The shortest periods are seconds, so all sweeps being silent for so long is not chance.
BEAT_SILENCE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Turn:
    """How the last turn of a sweep went. `overdue` is None for one that has never begun."""

    name: str
    started_at: datetime | None
    duration_ms: int | None
    overdue: timedelta | None


def turns(periods: Mapping[str, float], now: datetime) -> list[Turn]:
    """The last turns of these sweeps, which come round every so many seconds, by name.

    One is overdue once its period has passed since the last turn began or ended; while a process
    holds the turn, it is under way and not overdue.
    """
    rows = fetch(
        f"SELECT name, started_at, finished_at, held_until, duration_ms FROM {table(SweepLease)}"
    )
    found = {
        name: (instant(started), instant(finished), instant(held), took)
        for name, started, finished, held, took in rows
    }
    return [
        _turn(name, *found.get(name, _NEVER), timedelta(seconds=period), now)
        for name, period in sorted(periods.items())
    ]


_NEVER = (None, None, None, None)


def _turn(
    name: str,
    started_at: datetime | None,
    finished_at: datetime | None,
    held_until: datetime | None,
    duration_ms: int | None,
    period: timedelta,
    now: datetime,
) -> Turn:
    if started_at is None:
        return Turn(name, None, None, None)
    under_way = held_until is not None and held_until > now
    last = max(started_at, finished_at or started_at)
    late = timedelta() if under_way else max(timedelta(), now - last - period)
    return Turn(name, started_at, duration_ms, late)


def last_beat(found: Iterable[Turn]) -> datetime | None:
    """When a sweep was started for the last time: a sign of life of beat and of who runs sweeps."""
    return max((turn.started_at for turn in found if turn.started_at), default=None)
