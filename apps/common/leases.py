"""Leases of sweeps: one process at a time runs a sweep, however many beats there are.

Sweeps stay right without it, because guards move every row; it saves double work.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import execute, fetch, instant, repeatable, table
from apps.common.models import SweepLease
from apps.common.rows import ensure_row


@contextmanager
def sweep_lease(name: str, *, at_most: timedelta) -> Iterator[bool]:
    """Hold the lease of a sweep for `at_most`; yields False when another process has it.

    The lease of a process that died ends with that time.
    """
    now = clock.now()
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{secrets.token_hex(8)}"
    if not _take(name, holder, now, now + at_most):
        yield False
        return
    try:
        yield True
    finally:
        _give_back(name, holder, now)


@repeatable
def _take(name: str, holder: str, now: datetime, until: datetime) -> bool:
    if _take_free(name, holder, now, until):
        return True
    # Held, or it is the first run ever and there is no row.
    ensure_row(SweepLease, ["name"], {"name": name, "holder": "", "fence": 0})
    return _take_free(name, holder, now, until)


def _take_free(name: str, holder: str, now: datetime, until: datetime) -> bool:
    return bool(
        execute(
            f"UPDATE {table(SweepLease)} SET holder = %s, fence = fence + 1, held_until = %s, "
            "started_at = %s WHERE name = %s AND (held_until IS NULL OR held_until <= %s)",
            [holder, until, now, name, now],
        )
    )


@repeatable
def _give_back(name: str, holder: str, since: datetime) -> None:
    end = clock.now()
    took = max(0, (end - since) // timedelta(milliseconds=1))
    execute(
        f"UPDATE {table(SweepLease)} SET held_until = NULL, finished_at = %s, duration_ms = %s "
        "WHERE name = %s AND holder = %s",
        [end, took, name, holder],
    )


class LastRun(NamedTuple):
    """When a sweep last finished, and the position that it saved; None and {} at first."""

    finished_at: datetime | None
    position: dict[str, Any]


def last_run(name: str) -> LastRun:
    """The last run of the sweep."""
    select = f"SELECT finished_at, position FROM {table(SweepLease)} WHERE name = %s"
    for finished_at, position in fetch(select, [name]):
        return LastRun(instant(finished_at), _read(position))
    return LastRun(None, {})


def _read(position: str | None) -> dict[str, Any]:
    """A position that nothing here has saved is none: the sweep begins at the beginning."""
    found = json.loads(position or "{}")
    return found if isinstance(found, dict) else {}


def load_position(name: str) -> dict[str, Any]:
    """The position that the last run of the sweep saved; {} at first."""
    return last_run(name).position


@repeatable
def save_position(name: str, position: dict[str, Any]) -> None:
    """Save where the next run continues. A run that dies before repeats some rows."""
    ensure_row(SweepLease, ["name"], {"name": name, "holder": "", "fence": 0})
    SweepLease.objects.filter(name=name).update(position=position)


# Some sweeps run every second, so without any run for this long no beat is running.
BEAT_SILENCE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class SweepRun:
    """The last run of a sweep. `overdue` is None for a sweep that has never run, `saved` the JSON
    of the position that it saved."""

    name: str
    started_at: datetime | None
    duration_ms: int | None
    overdue: timedelta | None
    saved: str | None = None

    @property
    def position(self) -> dict[str, Any]:
        """The position that it saved; {} for none."""
        return _read(self.saved)


def last_runs(periods: Mapping[str, float], now: datetime) -> list[SweepRun]:
    """The last runs of these sweeps, which have periods in seconds, by name.

    A sweep is overdue once its period has passed since the last run began or ended, and never
    while it runs.
    """
    rows = fetch(
        "SELECT name, started_at, finished_at, held_until, duration_ms, position "
        f"FROM {table(SweepLease)}"
    )
    found = {
        name: (instant(started), instant(finished), instant(held), took, saved)
        for name, started, finished, held, took, saved in rows
    }
    return [
        _last_run(name, *found.get(name, _NEVER), timedelta(seconds=period), now)
        for name, period in sorted(periods.items())
    ]


_NEVER = (None, None, None, None, None)


def _last_run(
    name: str,
    started_at: datetime | None,
    finished_at: datetime | None,
    held_until: datetime | None,
    duration_ms: int | None,
    saved: str | None,
    period: timedelta,
    now: datetime,
) -> SweepRun:
    if started_at is None:
        return SweepRun(name, None, None, None, saved)
    under_way = held_until is not None and held_until > now
    last = max(started_at, finished_at or started_at)
    late = timedelta() if under_way else max(timedelta(), now - last - period)
    return SweepRun(name, started_at, duration_ms, late, saved)


def last_beat(found: Iterable[SweepRun]) -> datetime | None:
    """When any sweep last started, which shows that beat and a worker of sweeps are alive."""
    return max((run.started_at for run in found if run.started_at), default=None)
