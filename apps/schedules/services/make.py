"""Making jobs: one for each occurrence that is due or about to be.

One transaction locks some schedules and writes their jobs, their runs and what is next, all or
nothing. So each occurrence has exactly one job, whatever dies and however many sweeps race.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import connection, transaction

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import apart, is_retryable, transactional
from apps.common.errors import Invalid, PlatformError
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.common.rows import insert_rows, update_rows
from apps.common.shaped import stored
from apps.common.texts import begin_of
from apps.dispatch.rules.recurrence import occurrence_of
from apps.jobs.models import Job
from apps.jobs.rules.transitions import OPEN
from apps.jobs.services.submit import Submission, submit_many
from apps.journal import services as journal
from apps.journal.services.edit import entry_of
from apps.schedules.models import MAX_WHY, Schedule, ScheduleRun
from apps.schedules.rules import trouble as rules
from apps.schedules.rules.occurrences import ONLY, SKIP_OPEN, Due

logger = logging.getLogger(__name__)

SWEEP = "schedules.make"
# The period of the sweep. Jobs are made this long ahead, so that they begin on the second.
AHEAD = timedelta(seconds=5)
ACTOR = "schedules"
# Schedules that one transaction deals with, and jobs and bytes of contexts that it writes.
BATCH = 500
MAX_JOBS = 2000
MAX_BYTES = 4_000_000
# Schedules that one run of the sweep deals with.
MAX_DUE = 20_000
LAST_IS_OPEN = _("the job before it was still open")
BROKE = _("something broke when it was to be made; the log says what")


@dataclass(frozen=True, slots=True)
class _Run:
    """An occurrence to make a job for, unless there is a reason not to."""

    schedule: Schedule
    at: datetime
    why: str = ""

    @property
    def occurrence(self) -> int:
        return ONLY if self.schedule.rule is None else occurrence_of(self.at)

    @property
    def submission(self) -> Submission:
        return Submission(
            type=self.schedule.job_type,
            key=self.schedule.key_of(self.occurrence),
            context=kept(stored(self.schedule.context)),
            run_at=self.at,
            priority=self.schedule.priority,
            max_attempts=self.schedule.max_attempts,
        )


@dataclass(slots=True)
class _Batch:
    """The rows that one transaction writes."""

    runs: list[_Run] = field(default_factory=list)
    next_at: dict[Schedule, datetime | None] = field(default_factory=dict)
    # Schedules that failed here and stay due.
    broken: list[Schedule] = field(default_factory=list)
    entries: list[journal.Entry] = field(default_factory=list)


def make_due(*, until: datetime) -> int:
    """Make the jobs that are due within AHEAD; returns how many.

    Stops between two transactions when the clock has passed `until`; the next call goes on there.
    """
    due = Schedule.objects.filter(
        status=Schedule.Status.ACTIVE, next_at__lte=clock.now() + AHEAD
    ).order_by("next_at", "pk")
    pks = [*due.values_list("pk", flat=True)[:MAX_DUE]]
    made = 0
    for part in chunks(pks, BATCH):
        if clock.now() >= until:
            break
        made += _make(sorted(part))
    return made


@transactional
def _make(pks: list[int]) -> int:
    """Make the jobs of these schedules; returns how many."""
    now = clock.now()
    locked = Schedule.objects.select_for_update().filter(pk__in=pks).order_by("pk")
    # Another sweep or an edit may have come first.
    schedules = [
        each
        for each in locked
        if each.status == Schedule.Status.ACTIVE
        and each.next_at is not None
        and each.next_at <= now + AHEAD
    ]
    batch = _plan(schedules, now)
    jobs = _submit([run for run in batch.runs if not run.why])
    _write(batch, jobs, now)
    return sum(not isinstance(job, str) for job in jobs.values())


def _plan(schedules: Sequence[Schedule], now: datetime) -> _Batch:
    batch = _Batch()
    due = _due_of(schedules, now, batch)
    busy = _busy([schedule.pk for schedule in due if schedule.overlap == SKIP_OPEN])
    known = _known_runs(due)
    size = 0
    for schedule, (instants, next_at) in due.items():
        if len(batch.runs) >= MAX_JOBS or size >= MAX_BYTES:
            # The rest are found again by the next sweep.
            break
        batch.next_at[schedule] = next_at
        is_open = schedule.pk in busy
        for instant in instants:
            run = _Run(schedule, instant)
            if (schedule.pk, run.occurrence) in known:
                continue
            if is_open and instant > now:
                # The last job may end before this one is due.
                batch.next_at[schedule] = instant
                break
            batch.runs.append(_Run(schedule, instant, LAST_IS_OPEN) if is_open else run)
            is_open = schedule.overlap == SKIP_OPEN
            size += len(json.dumps(schedule.context))
    return batch


def _due_of(schedules: Sequence[Schedule], now: datetime, batch: _Batch) -> dict[Schedule, Due]:
    """The occurrences that each schedule must make; a schedule that fails here stops no other."""
    found: dict[Schedule, Due] = {}
    for schedule in schedules:
        with apart(schedule.subject):
            try:
                found[schedule] = schedule.due(now, now + AHEAD)
            except Invalid as error:
                # Its rule cannot be read any more.
                batch.next_at[schedule] = None
                schedule.trouble = Schedule.Trouble.UNMADE
                batch.entries.append(_refusal_entry(schedule, error.detail, now=now))
    batch.broken += [each for each in schedules if each not in {**found, **batch.next_at}]
    return found


def _busy(schedules: Collection[int]) -> set[int]:
    """The schedules with an open job, whoever began or retried it."""
    runs = ScheduleRun.objects.filter(schedule__in=schedules, outcome=rules.OPEN)
    by_job = {job: schedule for job, schedule in runs.values_list("job", "schedule_id") if job}
    # The end of a job that has just ended is not noted yet.
    still = Job.objects.filter(pk__in=[*by_job], status__in=OPEN).values_list("pk", flat=True)
    return {by_job[job] for job in still}


def _known_runs(due: dict[Schedule, Due]) -> set[tuple[int, int]]:
    """The occurrences that were dealt with: an edit may have brought them back."""
    found = ScheduleRun.objects.filter(
        schedule__in=list(due),
        occurrence__in={
            _Run(schedule, instant).occurrence
            for schedule, each in due.items()
            for instant in each.instants
        },
    )
    return set(found.values_list("schedule_id", "occurrence"))


def _submit(runs: Sequence[_Run]) -> dict[_Run, int | str]:
    """The number of the job of each run, or why it has none.

    All jobs are made at once; when some are refused or break, halving finds them.
    """
    if not runs:
        return {}
    try:
        with transaction.atomic():
            jobs = submit_many([run.submission for run in runs], by=ACTOR)
    except Exception as error:
        if is_retryable(error) or connection.needs_rollback:
            raise
        if len(runs) > 1:
            half = len(runs) // 2
            return _submit(runs[:half]) | _submit(runs[half:])
        if isinstance(error, PlatformError):
            return {runs[0]: _reason(error)}
        with apart(runs[0].schedule.subject):
            raise
        return {runs[0]: str(BROKE)}
    return {run: job.id for run, job in zip(runs, jobs, strict=True)}


def _reason(error: PlatformError) -> str:
    """Why the job was refused, without its position in the call."""
    text = error.detail.replace("jobs[0].type: ", "").replace("jobs[0].", "")
    return begin_of(text, MAX_WHY)


def _refusal_entry(schedule: Schedule, why: str, *, now: datetime, **data: str) -> journal.Entry:
    logger.warning("%s made no job: %s", schedule.subject, why)
    return entry_of(schedule, "run_refused", now=now, error=why, data=data)


def _write(batch: _Batch, jobs: dict[_Run, int | str], now: datetime) -> None:
    written = [*batch.next_at, *batch.broken]
    rows, last = [], {schedule: schedule.last_job for schedule in written}
    trouble = {schedule: schedule.trouble for schedule in written}
    for schedule in batch.broken:
        if trouble[schedule] != Schedule.Trouble.UNMADE:
            trouble[schedule] = Schedule.Trouble.UNMADE
            batch.entries.append(_refusal_entry(schedule, str(BROKE), now=now))
    for run in batch.runs:
        outcome = jobs.get(run, run.why)
        job, why = (None, outcome) if isinstance(outcome, str) else (outcome, "")
        rows.append(
            {
                **{"schedule_id": run.schedule.pk, "occurrence": run.occurrence, "at": run.at},
                **{"job": job, "why": why, "outcome": _outcome(why)},
            }
        )
        if job is not None:
            last[run.schedule] = job
            if trouble[run.schedule] == Schedule.Trouble.UNMADE:
                trouble[run.schedule] = Schedule.Trouble.NONE
        elif why != LAST_IS_OPEN:
            trouble[run.schedule] = Schedule.Trouble.UNMADE
            at = run.at.isoformat()
            batch.entries.append(_refusal_entry(run.schedule, why, now=now, run_at=at))
    insert_rows(ScheduleRun, rows)
    update_rows(
        Schedule,
        {
            schedule.pk: {
                "next_at": batch.next_at.get(schedule, schedule.next_at),
                "last_job": last[schedule],
                "trouble": trouble[schedule],
            }
            for schedule in written
        },
    )
    journal.write(batch.entries)


def _outcome(why: str) -> str:
    """The outcome of a run that has just been made, or not."""
    if not why:
        return rules.OPEN
    return rules.SKIPPED if why == LAST_IS_OPEN else rules.REFUSED
