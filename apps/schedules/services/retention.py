"""Housekeeping: removes runs that are older than KEPT, and schedules that will have no more.

The run of a job that is still open stays, because the next one may depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q

from apps.common import clock
from apps.common.db import transactional
from apps.journal import services as journal
from apps.journal.models import Source
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.rules.trouble import OPEN

SWEEP = "schedules.purge"
KEPT = timedelta(days=90)
BATCH = 1000


def purge(*, until: datetime) -> int:
    """Remove the rows that are past KEPT; returns how many.

    Stops between two chunks when the clock has passed `until`; the next call goes on there.
    """
    before = clock.now() - KEPT
    return _repeated(_remove_runs, before, until) + _repeated(_remove_schedules, before, until)


def _repeated(remove: Callable[[datetime], int], before: datetime, until: datetime) -> int:
    removed = 0
    while clock.now() < until:
        gone = remove(before)
        removed += gone
        if not gone:
            break
    return removed


@transactional
def _remove_runs(before: datetime) -> int:
    """Remove the oldest runs that are over; returns how many. Runs were written in the order of
    their ids, which is nearly that of time, so nothing old is left once the first chunk holds
    nothing old."""
    over = ScheduleRun.objects.exclude(outcome=OPEN).order_by("pk")
    oldest = over.values_list("pk", "at")[:BATCH]
    gone, _ = ScheduleRun.objects.filter(pk__in=[pk for pk, at in oldest if at < before]).delete()
    _record("runs", gone)
    return gone


@transactional
def _remove_schedules(before: datetime) -> int:
    """Remove schedules without a run that are deleted or over and unchanged since; returns how
    many."""
    over = Q(status=Schedule.Status.DELETED) | Q(status=Schedule.Status.ACTIVE, next_at=None)
    runs = ScheduleRun.objects.filter(schedule=OuterRef("pk"))
    found = Schedule.objects.filter(over, ~Exists(runs), updated_at__lt=before).order_by("pk")
    pks = [*found.values_list("pk", flat=True)[:BATCH]]
    locked = Schedule.objects.select_for_update().filter(pk__in=pks).order_by("pk")
    # A resume or a run by hand may have come first.
    pks = [each.pk for each in locked if each.updated_at < before]
    _total, by_table = Schedule.objects.filter(~Exists(runs), pk__in=pks).delete()
    gone = by_table.get(Schedule._meta.label, 0)
    _record("schedules", gone)
    return gone


def _record(name: str, count: int) -> None:
    if count:
        journal.note("purged", {name: count}, at=clock.now(), source=Source.SCHEDULE)
