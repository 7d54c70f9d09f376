"""The archive rolls on MariaDB and MySQL: partitions are cut ahead, and dropped when all their jobs
are over. On SQLite there are none, and `retention` alone forgets."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common import clock, ids, partitions
from apps.common.db import fetch, instant, table, transactional
from apps.common.leases import load_position, save_position, sweep_lease
from apps.common.partitions import CannotRoll, Partition
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob
from apps.jobs.rules import retention as rules
from apps.jobs.services import archive
from apps.jobs.services.retention import FORGOTTEN
from apps.journal import services as journal
from apps.journal.models import Source

SWEEP = "jobs.roll"
# Until a partition is over that takes the jobs of a month, and until its last job has ended.
LAG = partitions.LONGEST + timedelta(days=1)
# The mover rests while a partition is looked through.
MAX_LOOK = timedelta(minutes=10)


class Rolled(NamedTuple):
    """How many partitions a round has cut and dropped."""

    cut: int = 0
    dropped: int = 0


def lag() -> timedelta:
    """How much later archived jobs are forgotten one by one, because partitions go first."""
    return LAG if partitions.partitions_of(ArchivedJob) else timedelta()


def roll(*, moves_rows: bool = False) -> Rolled:
    """Cut partitions ahead and drop what is over; raises CannotRoll.

    `moves_rows`: also when many jobs have come since the last boundary, for whose copy the mover
    and retries from the archive wait.
    """
    now = clock.now()
    found = partitions.partitions_of(ArchivedJob)
    if not found:
        return Rolled()
    cut = _cut(found, now, moves_rows=moves_rows)
    before = rules.horizon(now, retention=conf.JOB_RETENTION)
    return Rolled(cut, 0 if before is None else _drop(partitions.over(found, before), before, now))


def _cut(found: list[Partition], now: datetime, *, moves_rows: bool) -> int:
    wanted = partitions.missing(ArchivedJob, found, now, conf.JOB_RETENTION)
    if not wanted:
        return 0
    ends = [each.end for each in found if each.end is not None]
    if not moves_rows and _has_many_behind(max(ends, default=None)):
        raise CannotRoll(
            f"More than {partitions.MOVED_AT_ONCE:,} archived jobs lie behind the last boundary; "
            "to move them takes about 5 s for each million, for which the archive is not written. "
            "Run `manage.py roll_tables --move` when it suits."
        )
    partitions.cut(ArchivedJob, wanted)
    return len(wanted)


def _has_many_behind(end: datetime | None) -> bool:
    low = 0 if end is None else ids.lowest_id_at(end)
    some = ArchivedJob.objects.filter(pk__gte=low).values_list("pk", flat=True)
    return some[: partitions.MOVED_AT_ONCE + 1].count() > partitions.MOVED_AT_ONCE


def _drop(over: list[Partition], before: datetime, now: datetime) -> int:
    known = load_position(SWEEP)
    waits = {each.name: known[each.name] for each in over if each.name in known}
    dropped = 0
    for each in over:
        if waits.get(each.name, "") > now.isoformat():
            continue
        # Jobs that were made early may come late: nothing is moved between the look and the drop.
        with sweep_lease(archive.SWEEP, at_most=MAX_LOOK) as is_alone:
            if not is_alone:
                break
            ends_at = _looked_through(each, before, now)
            if ends_at is None:
                partitions.drop(ArchivedJob, [each])
                waits.pop(each.name, None)
                dropped += 1
            else:
                waits[each.name] = (ends_at + conf.JOB_RETENTION).isoformat()
    save_position(SWEEP, waits)
    return dropped


def _looked_through(partition: Partition, before: datetime, now: datetime) -> datetime | None:
    """None when all its jobs are over, which is then told; else the end of the last one."""
    [(jobs, latest)] = fetch(
        f"SELECT COUNT(*), MAX(finished_at) FROM {table(ArchivedJob)} PARTITION ({partition.name})"
    )
    if jobs and instant(latest) >= before:
        ends_at: datetime = instant(latest)
        return ends_at
    if jobs:
        # Before the drop, which is no part of any transaction: none goes untold.
        _tell(partition, jobs, now)
    return None


@transactional
def _tell(partition: Partition, jobs: int, now: datetime) -> None:
    data = {"archived_jobs": jobs, "partition": partition.name}
    entry = journal.Entry(at=now, source=Source.PLAN, subject_id=0, event=FORGOTTEN, data=data)
    journal.write([entry])
