"""`demo --jobs`: submits jobs of four types, shows how they drain, and checks the promises."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.core.management import CommandError
from django.db.models import Count, F

from apps.common import clock, ids
from apps.jobs.conf import conf
from apps.jobs.models import Job, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.services import register, types
from apps.jobs.services.invariants import CHECKS
from apps.journal.models import JournalEntry, Source
from taskplatform.demo.job_types import (
    FAILING,
    HTTP,
    NAMES,
    counts_of,
    ensure_job_types,
    own_url,
)
from taskplatform.demo.job_types import submit_demo_jobs as submit
from taskplatform.demo.proofs import Proof, audited
from taskplatform.demo.terminal import Column, Live, percentile, table

POLL_SECONDS = 0.5
# Where lines cannot be overwritten.
SECONDS_BETWEEN_TABLES = 10.0
TRIAL_SECONDS = 15.0
WORKER_SECONDS = 60.0
# Ids are given before the commit, so an entry may appear below others.
LATE = timedelta(seconds=5)
# The audit reads the journal of the run up to this number of entries.
MAX_AUDITED = 200_000

COLUMNS = (
    Column("Type", 16),
    Column("Waiting", 7, "right"),
    Column("Running", 7, "right"),
    Column("Done", 6, "right"),
    Column("Failed", 6, "right"),
    Column("Retried", 7, "right"),
    Column("Wait p50", 8, "right"),
    Column("p95", 7, "right"),
    Column("Run p50", 7, "right"),
    Column("p95", 7, "right"),
)

Write = Callable[[str], None]


def run_jobs(total: int, seconds: int, *, write: Write, in_place: bool) -> tuple[list[Proof], bool]:
    """Submit jobs and show them until all have ended; the proofs, and whether time was up."""
    ensure_job_types()
    await_workers(write)
    _try_http()
    trace_id = f"demo-{secrets.token_hex(8)}"
    began = time.monotonic()
    made = submit(counts_of(total), trace_id=trace_id)
    took = time.monotonic() - began
    write(f"Submitted {total:,} jobs of 4 types in {took:.1f} s, in one transaction.\n\n")
    run = JobRun([each.id for each in made], trace_id)
    took = _watch(run, began, seconds, Live(write, in_place=in_place, pause=SECONDS_BETWEEN_TABLES))
    write(f"\n{run.ended:,} jobs ended in {took:.0f} s, {run.ended / took:,.0f} a second.\n")
    return run.proofs(), took >= seconds


def _watch(run: JobRun, began: float, seconds: int, live: Live) -> float:
    ended, at = 0, began
    while True:
        run.poll()
        now = time.monotonic()
        rate = (run.ended - ended) / max(now - at, 0.001)
        ended, at = run.ended, now
        took = now - began
        over = not run.open or took >= seconds
        heading = f"{took:4.0f} s   {ended:,} of {len(run.numbers):,} ended   {rate:,.0f} jobs/s"
        live.show(took, [heading, *table(COLUMNS, run.rows())], last=over)
        if over:
            return took
        time.sleep(POLL_SECONDS)


@dataclass
class Figures:
    """Jobs of one type by status, and the times of their attempts in milliseconds."""

    statuses: Counter[str] = field(default_factory=Counter)
    waits: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    retried: int = 0


class JobRun:
    """The jobs of one run, known by their trace id; `poll` reads only what is new."""

    def __init__(self, numbers: Sequence[int], trace_id: str) -> None:
        self.numbers = numbers
        self.figures = {name: Figures() for name in NAMES}
        self._trace_id = trace_id
        self._first = self._read_from = min(numbers)
        self._seen: set[int] = set()

    @property
    def open(self) -> int:
        return sum(each.statuses[status] for each in self.figures.values() for status in t.OPEN)

    @property
    def ended(self) -> int:
        return sum(each.statuses.total() for each in self.figures.values()) - self.open

    def poll(self) -> None:
        """Bring the figures up to now."""
        for figures in self.figures.values():
            figures.statuses.clear()
        counted = self._jobs().values_list("type", "status").annotate(Count("pk")).order_by()
        for name, status, count in counted:
            self.figures[name].statuses[status] = count
        now = clock.now()
        attempts = JournalEntry.objects.filter(
            source=Source.JOB,
            trace_id=self._trace_id,
            pk__gte=self._read_from,
            wait_ms__isnull=False,
        ).exclude(event=t.END_RELEASED)
        columns = ("pk", "type_or_task", "to_state", "wait_ms", "run_ms")
        for pk, name, after, wait, run in attempts.values_list(*columns):
            if pk not in self._seen:
                self._seen.add(pk)
                figures = self.figures[name]
                figures.waits.append(wait or 0)
                figures.runs.append(run or 0)
                figures.retried += after in t.WAITING
        self._read_from = max(self._first, ids.lowest_id_at(now - LATE))

    def rows(self) -> list[list[str]]:
        """The rows of the table, in the order of COLUMNS."""
        return [
            [
                name,
                f"{each.statuses[t.READY] + each.statuses[t.SCHEDULED]:,}",
                f"{each.statuses[t.RUNNING]:,}",
                f"{each.statuses[t.SUCCEEDED]:,}",
                f"{each.statuses[t.FAILED] + each.statuses[t.CANCELLED]:,}",
                f"{each.retried:,}",
                *(_time(times, part) for times in (each.waits, each.runs) for part in (50, 95)),
            ]
            for name, each in self.figures.items()
        ]

    def proofs(self) -> list[Proof]:
        """The promises of jobs, checked on all rows of the run and its journal."""
        there = set(self._jobs().values_list("pk", flat=True))
        over = self._jobs().exclude(status__in=t.OPEN)
        failing = over.filter(type=FAILING)
        entries = JournalEntry.objects.filter(pk__gte=self._first).count()
        return [
            Proof(
                "nothing is lost",
                [f"job {n} is not in the table any more" for n in self.numbers if n not in there],
            ),
            Proof("every job has ended", _listed(self._jobs().filter(status__in=t.OPEN))),
            Proof(
                "each failing job failed after exactly its attempts",
                _listed(failing.exclude(status=t.FAILED, attempts=F("max_attempts"))),
            ),
            Proof(
                "every other job succeeded",
                _listed(over.exclude(type=FAILING).exclude(status=t.SUCCEEDED)),
            ),
            *audited(CHECKS, recent=min(max(entries, len(self.numbers)), MAX_AUDITED)),
        ]

    def _jobs(self) -> Any:
        within = Job.objects.filter(pk__gte=self._first, pk__lte=max(self.numbers))
        return within.filter(trace_id=self._trace_id)


def _listed(jobs: Any) -> list[str]:
    return [
        f"{job.type} {job.pk} is {job.status} after {job.attempts} of {job.max_attempts} attempts"
        for job in jobs.only("type", "status", "attempts", "max_attempts").order_by("pk")
    ]


def _time(times: Sequence[int], percent: int) -> str:
    if not times:
        return "-"
    milliseconds = percentile(times, percent)
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


# --- what the run needs ---------------------------------------------------------------------------
def await_workers(write: Write) -> None:
    """Return when live workers take all types of the demo; else CommandError says what to start."""
    lanes = {}
    for name in NAMES:
        settings = types.find(name).snapshot
        if settings.is_paused(clock.now()):
            raise CommandError(f"Type {name} is paused; resume it in the admin.")
        lanes[name] = settings.lane
    until = time.monotonic() + WORKER_SECONDS
    is_waiting = False
    while problem := _missing(lanes):
        if time.monotonic() >= until:
            raise CommandError(problem)
        if not is_waiting:
            write(f"Waiting for a worker, up to {WORKER_SECONDS:.0f} s …\n")
            is_waiting = True
        time.sleep(POLL_SECONDS)


def _missing(lanes: dict[str, str]) -> str:
    """What no worker does and how to start one, "" when nothing is missing."""
    live = [row for row in register.alive(clock.now()) if row.state == Worker.State.ACTIVE]
    if not live:
        return (
            "No worker is alive that could run jobs. Start the platform in another terminal with: "
            f"make run. One that died is noticed after {conf.JOB_WORKER_SILENCE.seconds} s."
        )
    for name, lane in lanes.items():
        if not any(lane in worker.lanes for worker in live):
            start = f"celery -A taskplatform worker -Q {lane}"
            return f"No live worker takes jobs of type {name}; start one with: {start}"
    return ""


def _try_http() -> None:
    """Let one job call the platform before thousands do, because that may not be allowed."""
    [job] = submit({HTTP: 1}, trace_id="")
    until = time.monotonic() + TRIAL_SECONDS
    while time.monotonic() < until:
        status, memo = Job.objects.values_list("status", "memo").get(pk=job.id)
        if status == t.SUCCEEDED:
            return
        if memo or status in t.FINAL:
            host = own_url().removeprefix("http://").partition("/")[0]
            raise CommandError(
                f"A job that calls {own_url()} failed: {memo or status} The workers need "
                f"JOB_HTTP_HOSTS={host} and JOB_HTTP_NETWORKS=127.0.0.1/32, and the web "
                "must answer there; `make run` on SQLite sets both, if this command has the "
                "same PORT."
            )
        time.sleep(0.1)
    raise CommandError(
        f"Job {job.id}, the first of type {HTTP}, did not end within {TRIAL_SECONDS:.0f} s; "
        "its page in the admin shows why."
    )
