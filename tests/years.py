"""`demo --years`: some years of the company, played on a new platform up to the present.

The clock of this process stands at moments of the past, one after the other. What happens then, the
services and sweeps of the platform do, so that rows get the ids and times of those days. Rows by
the million, which need not come from services, are written by tests/benchmark/weeks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from unittest.mock import patch

from django.core.management.base import CommandError

from apps.common import clock, ids, partitions
from apps.common.models import SweepLease
from apps.dispatch import sweeps as dispatch
from apps.dispatch.models import Dispatch
from apps.dispatch.services.pull import answer_pull, call_back, release
from apps.jobs import sweeps as jobs
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services.hold import HeldJob, Holder, hold
from apps.jobs.services.promote import promote_due
from apps.jobs.services.settle import settle
from apps.journal import sweeps as journal
from apps.journal.models import JournalEntry
from apps.reports import sweeps as reports
from taskplatform.demo.company import JOB_TYPES, PEOPLE
from taskplatform.demo.jobs import FAILING, counts_of, submit_jobs
from taskplatform.demo.planning import plan, plan_round
from taskplatform.demo.proofs import Proof
from taskplatform.demo.terminal import bar
from tests.frozen import FrozenClock
from tests.years_proofs import Ledger

DAY = timedelta(days=1)
YEAR = 365 * DAY
# What one look plays.
STRETCH = 30 * DAY
JOBS_A_DAY, JOBS_AT_WEEKENDS = 100, 30
FRIDAY = 4
# When jobs are run; those that failed are tried again at the next one.
ROUNDS = tuple(timedelta(hours=hour) for hour in (7, 8, 13, 18))
WORKER = Holder("demo:1", "demo")
BATCH = 100
FIRST_PULL, FIRST_END = timedelta(hours=9), timedelta(hours=9, minutes=20)
EACH = timedelta(seconds=20)
# Of so many hand-outs one fails, one is given back, one is left open.
MISHAP = 40
SWEEP_AT = timedelta(hours=23)
# As beat starts them; here once a day.
SWEEPS: tuple[Callable[[], object], ...] = (
    dispatch.expire,
    dispatch.purge,
    dispatch.roll,
    reports.roll_up,
    jobs.archive_ended,
    jobs.forget,
    jobs.roll,
    journal.roll,
)
HEADINGS = ("Until", ">Jobs made", ">Live", ">Archived", ">Forgotten", ">Dispatches", ">Journal")


def require_new() -> None:
    """Return when the platform has never run; else CommandError with what to do."""
    rolls = any(len(partitions.partitions_of(model)) > 1 for model in (ArchivedJob, JournalEntry))
    used = any(model.objects.exists() for model in (Job, ArchivedJob, Dispatch, SweepLease))
    if rolls or used:
        raise CommandError(
            "The past can only be played on a platform that has never run. Set DATABASE_URL to a "
            "new database, such as sqlite:////tmp/years.sqlite3, run `manage.py migrate`, then "
            "this command again, and start the platform after it."
        )


class Years:
    """The years, played a stretch at a time; they begin at `first`."""

    def __init__(self, days: int) -> None:
        self._present = clock.now()
        midnight = self._present.replace(hour=0, minute=0, second=0, microsecond=0)
        # Ids tell no time before their epoch.
        self.first = self._day = max(midnight - days * DAY, ids.EPOCH)
        self._days = (midnight - self.first) // DAY
        self._clock = FrozenClock(self._day)
        self._ledger = Ledger()
        self._rows: list[list[str]] = []
        self._left: list[int] = []
        self._rotation = 0

    def look(self) -> tuple[str, bool]:
        """Play the next stretch; a line of progress, and whether the present is reached."""
        start = self._day
        end = min(start + STRETCH, self.first + self._days * DAY)
        with patch.object(clock, "now", self._clock):
            if start == self.first:
                self._sweep()
                plan()
            while self._day < end:
                self._play_day()
                self._day += DAY
            is_over = end == self.first + self._days * DAY
            if is_over:
                self._clock.move_to(self._present)
                self._sweep()
            self._ledger.count_entries(start, end)
        self._rows.append(self._row())
        played = (end - self.first) // DAY
        return f"{bar(played, self._days)} days · {', '.join(self._rows[-1][1:3])}", is_over

    def rows(self) -> list[list[str]]:
        """What was there at the end of each stretch, in the order of HEADINGS."""
        return self._rows

    def proofs(self) -> list[Proof]:
        """That all is where its age puts it, and that the audit finds nothing."""
        return self._ledger.proofs(clock.now())

    def _play_day(self) -> None:
        is_week_end = self._day.weekday() > FRIDAY
        self._move_to(timedelta(hours=6))
        if self._day.weekday() == 0:
            plan_round()
        made = submit_jobs(counts_of(JOBS_AT_WEEKENDS if is_week_end else JOBS_A_DAY))
        self._ledger.submitted.update(each.id for each in made)
        for at in ROUNDS[:2]:
            self._run_jobs(at)
        if not is_week_end:
            self._hand_out()
        for at in ROUNDS[2:]:
            self._run_jobs(at)
        self._move_to(SWEEP_AT)
        self._sweep()

    def _move_to(self, time_of_day: timedelta) -> None:
        self._clock.move_to(self._day + time_of_day)

    def _sweep(self) -> None:
        for sweep in SWEEPS:
            sweep()
        left = Dispatch.objects.filter(pk__in=self._left)
        for number, ended_at in left.values_list("pk", "finished_at"):
            if ended_at is not None:
                self._ledger.dispatches[number] = ended_at
                self._left.remove(number)

    def _run_jobs(self, at: timedelta) -> None:
        self._move_to(at)
        promote_due()
        while held := hold(
            holder=WORKER, types=list(JOB_TYPES), limit=BATCH, rotation=self._turn()
        ):
            self._clock.advance(seconds=2)
            answers = settle(outcomes=[_outcome(job) for job in held])
            for job, answer in zip(held, answers, strict=True):
                if answer in t.FINAL:
                    self._ledger.jobs[job.id] = self._clock.instant

    def _turn(self) -> int:
        self._rotation += 1
        return self._rotation

    def _hand_out(self) -> None:
        """Everybody has one task at once, and ends it after twenty minutes."""
        taken = []
        for position, uid in enumerate(PEOPLE):
            self._move_to(FIRST_PULL + position * EACH)
            answer = answer_pull(uid)
            if isinstance(answer, Dispatch):
                taken.append((position, uid, answer.pk))
        for position, uid, number in taken:
            self._move_to(FIRST_END + position * EACH)
            mishap = (number // 7) % MISHAP
            if mishap == 0:
                self._left.append(number)
                continue
            if mishap == 1:
                release(uid, number)
            else:
                call_back(uid, number, "failed" if mishap == 2 else "succeeded")
            self._ledger.dispatches[number] = self._clock.instant

    def _row(self) -> list[str]:
        live, archived = Job.objects.count(), ArchivedJob.objects.count()
        made = len(self._ledger.submitted)
        counts = (made, live, archived, made - live - archived)
        others = (Dispatch.objects.count(), JournalEntry.objects.count())
        return [f"{self._day:%Y-%m-%d}", *(f"{count:,}" for count in (*counts, *others))]


def _outcome(job: HeldJob) -> Outcome:
    if job.type == FAILING:
        return job.ended("failed", error=f"ValueError: '{job.context['seconds']}' is no number")
    return job.ended("succeeded")
