"""Helpers of tests that make, hold and end jobs through the services and the table."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from apps.common import clock, ids
from apps.common.errors import PlatformError
from apps.common.leases import save_position
from apps.common.rows import insert_rows
from apps.jobs.models import Job, JobType
from apps.jobs.rules.order import WEIGHT_MS, order_key
from apps.jobs.rules.slices import SliceMap, member_key
from apps.jobs.rules.transitions import READY, SCHEDULED
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Process
from apps.jobs.services.hold import HeldJob, Holder, hold
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.settle import settle
from apps.jobs.services.slices import SWEEP, forget_slice_map
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock

HERE = Holder("host-a:1", "host-a")
THERE = Holder("host-b:2", "host-b")


def job_type(name: str = "mail", **settings: Any) -> JobType:
    """A type with a handler of its name, and without jitter, so that waits are exact; an edited one
    has a new version."""
    now = clock.now()
    settings = {"retry_jitter": 0.0, **settings}
    settings.setdefault("handler", name)
    made, is_new = JobType.objects.update_or_create(
        name=name, defaults={"created_at": now, "updated_at": now, **settings}
    )
    if not is_new:
        JobType.objects.filter(name=name).update(version=F("version") + 1)
    forget_type_snapshots()
    return made


def jobs(count: int = 1, type: str = "mail", **columns: Any) -> list[int]:  # noqa: A002
    """Insert `count` jobs that are all due at the same instant; returns their numbers."""
    now = clock.now()
    numbers = ids.next_ids(count)
    run_at: datetime = columns.pop("run_at", now - timedelta(milliseconds=1))
    priority = columns.get("priority", 0)
    max_attempts = JobType.objects.get(name=type).max_attempts
    rows = []
    for position, number in enumerate(numbers):
        row = {
            "id": number,
            "type": type,
            "context": {"position": position},
            "status": SCHEDULED if run_at > now else READY,
            "run_at": run_at,
            "expected_at": run_at,
            "created_at": now,
            "max_attempts": max_attempts,
            "order_key": order_key(
                run_at,
                priority=priority,
                attempts=columns.get("attempts", 0),
                weight_ms=WEIGHT_MS,
            ),
        }
        rows.append({**row, **columns})
    for start in range(0, count, 1000):
        insert_rows(Job, rows[start : start + 1000])
    return numbers


def take(
    limit: int = 100, *, types: tuple[str, ...] = ("mail",), by: Holder = HERE, rotation: int = 0
) -> list[HeldJob]:
    return hold(holder=by, types=types, limit=limit, rotation=rotation)


def ended(how: str, count: int, type_: str = "mail") -> None:
    """So many jobs of the type that have ended in this way."""
    jobs(count, type_)
    for held in take(limit=count, types=(type_,)):
        end(held, how)


def held_jobs(count: int = 1, **settings: Any) -> list[HeldJob]:
    """Jobs of the type mail, which has these settings, that HERE has just held."""
    job_type(**settings)
    jobs(count)
    return take()


def share(*holders: Holder, types: Collection[str] = ("mail",)) -> SliceMap:
    """Let these workers share the shards of the types, as the sweep does; the map."""
    members = {member_key(each.client, each.name): frozenset(types) for each in holders}
    known = SliceMap(1, clock.now(), members)
    save_position(SWEEP, known.to_json())
    forget_slice_map()
    return known


def end(held: HeldJob, how: str = "succeeded", **details: Any) -> str:
    """Report one held job; returns its status after it, or the code of the refusal."""
    [answer] = settle(outcomes=[held.ended(how, **details)])
    return answer_of(answer)


def answer_of(answer: str | PlatformError) -> str:
    """An answer of `settle` as one word: the job's status, or the code of the refusal."""
    return answer.code if isinstance(answer, PlatformError) else answer


def drained(process: Process, lane: str = "fast") -> int:
    """Run what is due in a drain; returns how many jobs it ran."""
    return Drain(process, lane).run(wait=False)


def row(number: int) -> Job:
    return Job.objects.get(pk=number)


def events_of(number: int) -> list[str]:
    """The events of the job's journal, oldest first."""
    entries = JournalEntry.objects.timeline("job", number)
    return [entry.event for entry in entries]


def rescue(clock: FrozenClock, **who: Any) -> int:
    """End the attempts that are over now; returns how many."""
    return rescue_due(until=clock.instant + timedelta(seconds=1), **who)


def last_entry(number: int) -> JournalEntry:
    """The newest entry of the job's journal."""
    return JournalEntry.objects.timeline("job", number).last()
