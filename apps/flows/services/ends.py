"""Brings runs on when jobs and hand-outs that are part of their steps end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Max

from apps.common import clock
from apps.common.db import apart, fetch, fetch_each, instant, repeatable, table
from apps.common.messages import Message
from apps.common.parts import Span
from apps.common.rows import update_rows
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import joins, looks
from apps.flows.services import people, programs

# Steps that one sweep looks at.
MAX_DUE = 500


def concerned(parts: Collection[int]) -> list[int]:
    """The runs that may go on now that something has ended, or left its end, that was part of these
    steps. Whoever commits last sees no open job, because it looks after its own commit.

    A SELECT for each step, in one statement: with the step's number in it the range of its jobs is
    known to the planner, which looks from behind there only.
    """
    job = programs.open_job("j", "s.first", "s.last", "s.id")
    one = f"SELECT s.run_id, s.state, ({job}) FROM {table(FlowStep)} s WHERE s.id = %s"
    return sorted(
        {
            run
            for run, state, is_open in fetch_each((one, [step]) for step in parts)
            if state == joins.FAILED or (state == joins.ACTIVE and not is_open)
        }
    )


def needed(parts: Collection[int]) -> set[int]:
    """Return the steps whose jobs are not to be forgotten: they are active, or failed lately."""
    rows = FlowStep.objects.filter(pk__in=parts, look_at__isnull=False)
    return {*rows.values_list("pk", flat=True)}


def has_needed_among(span: Span) -> bool:
    """Whether jobs of such a step may lie between these."""
    rows = FlowStep.objects.filter(look_at__isnull=False, first__lte=span.last)
    return rows.filter(last__gte=span.first).exists()


def is_due() -> bool:
    """Whether a step is to be looked at."""
    steps = table(FlowStep)
    return bool(fetch(f"SELECT 1 FROM {steps} WHERE look_at <= %s LIMIT 1", [clock.now()]))


def due(now: datetime) -> list[int]:
    """The runs that are to be looked at: those first of which all jobs of a step have ended, and of
    each kind those that have waited longest, because a sweep that dies again and again would else
    never come to the last.

    Steps of which a job is open, or whose task is still to be had, need no more: their next look is
    put off here, without a lock of their runs and in some statements for all of them. Should one of
    them break that, all are looked at one by one.
    """
    rows = [
        _Due(*row)
        for row in fetch(
            "SELECT s.id, s.run_id, s.first, s.last, s.task, s.started_at, s.deadline_at, "
            f"s.state = '{joins.ACTIVE}' AND s.by = '' AND s.memo = '' "
            f"AND r.status <> '{FlowRun.Status.CANCELLING.value}' "
            f"FROM {table(FlowStep)} s JOIN {table(FlowRun)} r ON r.id = s.run_id "
            f"WHERE s.look_at <= %s ORDER BY s.look_at LIMIT {MAX_DUE}",
            [now],
        )
    ]
    may_wait = [row for row in rows if row.is_going_on and not row.is_late(now)]
    of_jobs = [row for row in may_wait if row.first is not None]
    waiting: set[int] = set()
    with apart("a look at what goes on"):
        found = programs.open_among([(row.first, row.last, row.step) for row in of_jobs])
        found |= people.waiting({row.step: row.task for row in may_wait if row.task}, now)
        _put_off([row for row in may_wait if row.step in found], now)
        waiting = found
    # Before those of tasks, which may take long and mostly find nothing.
    over = [row.run for row in of_jobs if row.step not in waiting]
    others = [row.run for row in rows if row.step not in waiting]
    return [*dict.fromkeys([*over, *others])]


class _Due(NamedTuple):
    """A step to be looked at; `is_going_on` if nobody but those at work brings it on, and the last
    look did not break."""

    step: int
    run: int
    first: int
    last: int
    task: int
    started_at: Any
    deadline_at: Any
    is_going_on: bool

    def is_late(self, now: datetime) -> bool:
        return self.deadline_at is not None and instant(self.deadline_at) <= now

    def next_look(self, now: datetime) -> datetime:
        times = instant(self.started_at), instant(self.deadline_at)
        return looks.next_look(now, *times, is_task=bool(self.task))


@repeatable
def _put_off(rows: Sequence[_Due], now: datetime) -> None:
    """Look at these later, unless somebody has changed them since."""
    changes = {row.step: {"look_at": row.next_look(now)} for row in rows}
    guard = "state = %s AND look_at <= %s"
    update_rows(FlowStep, changes, guard=guard, parameters=[joins.ACTIVE, now])


def look_again(run: int, error: Exception) -> None:
    """Look at the run again, which broke: at once where its newest step has only just begun. The
    steps that go on say so."""
    now = clock.now()
    steps = FlowStep.objects.filter(run=run, look_at__isnull=False)
    latest = steps.aggregate(at=Max("started_at"))["at"]
    _look_at(run, looks.look_again(now, latest or now))
    _say(run, Message(looks.BROKE, error=type(error).__name__))


def look_now(run: int) -> None:
    """Have the sweep look at the run at once."""
    _look_at(run, clock.now())


@repeatable
def _look_at(run: int, at: datetime) -> None:
    FlowStep.objects.filter(run=run, look_at__isnull=False).update(look_at=at)


@repeatable
def _say(run: int, memo: str) -> None:
    # What has failed or is being skipped says why.
    steps = FlowStep.objects.filter(run=run, look_at__isnull=False, by="")
    steps.exclude(state=joins.FAILED).update(memo=memo)
