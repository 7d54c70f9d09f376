"""`demo --jobs`: submits jobs of four types, waits for their ends, and checks the promises."""

from __future__ import annotations

import random
import secrets
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.db.models import F

from apps.common import clock
from apps.common.audit import RECENT
from apps.common.db import transactional
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.addresses import host_is_listed
from apps.jobs.services import types
from apps.jobs.services.invariants import CHECKS
from apps.jobs.services.living import active_workers, unserved
from apps.jobs.services.submit import Submission, Submitted, submit_many
from apps.journal.models import JournalEntry, Source
from apps.schedules.models import Schedule
from apps.schedules.services import schedules
from taskplatform.demo.company import (
    ACTOR,
    JOB_TYPES,
    JOBS,
    ORDER_TYPES,
    ORDERS,
    PEOPLE,
    SCHEDULE,
)
from taskplatform.demo.handlers import ORDER
from taskplatform.demo.proofs import Proof, audited
from taskplatform.demo.terminal import bar, percentile

HTTP, FAILING, SLOW, CHECKPOINTS = JOB_TYPES
OWN_HOST = "127.0.0.1"
FIRST_CALLS = 20
WORKER_SECONDS = 60.0

_TIMES = (">Wait p50", ">p95", ">Run p50", ">p95")
HEADINGS = ("Type", ">Open", ">Done", ">Failed", ">Retried", *_TIMES)


def context_of(name: str) -> dict[str, Any]:
    """The context of the jobs of a type."""
    if name == HTTP:
        return {"url": f"http://{OWN_HOST}:{settings.PORT}/health/live"}
    return dict(JOBS[name]["context"])


def counts_of(total: int) -> dict[str, int]:
    """The number of jobs of each type among `total`; at least one of each."""
    counts = {name: max(1, total * each["of_10000"] // 10_000) for name, each in JOBS.items()}
    return {HTTP: total - sum(counts.values()), **counts}


def http_is_allowed() -> bool:
    """Whether http_request may call this platform."""
    listed = host_is_listed(OWN_HOST, settings.PORT, 80, conf.JOB_HTTP_HOSTS)
    return listed and bool(conf.JOB_HTTP_NETWORKS)


@transactional
def submit_jobs(counts: Mapping[str, int], *, trace_id: str = "") -> list[Submitted]:
    """Submit this number of jobs of each type, mixed, each for one of the people."""
    ensure_job_types()
    people = list(PEOPLE)
    jobs = [
        Submission(
            type=name,
            key=f"{name.removeprefix('demo-')}-{number + 1}",
            context=context_of(name),
            user_id=people[number % len(people)],
            trace_id=trace_id,
        )
        for name, count in counts.items()
        for number in range(count)
    ]
    random.shuffle(jobs)
    return submit_many(jobs, by=ACTOR)


@transactional
def submit_first_jobs() -> int:
    """Submit some jobs, four of them for later; 0 when the demo has submitted before.

    Jobs that call the platform are left out where that is not allowed.
    """
    if not ensure_job_types() and Job.objects.filter(type__in=JOB_TYPES).exists():
        return 0
    counts = {name: each["at_first"] for name, each in JOBS.items()}
    if http_is_allowed():
        counts[HTTP] = FIRST_CALLS
    later = [
        Submission(
            type=SLOW,
            key=f"later-{quarter}",
            context=context_of(SLOW),
            delay=timedelta(minutes=15 * quarter),
        )
        for quarter in range(1, 5)
    ]
    return len(submit_jobs(counts)) + len(submit_many(later, by=ACTOR)) + submit_orders()


@transactional
def submit_orders() -> int:
    """Submit orders of all shops at once, those of the shop with most first; their number."""
    types.ensure_types(ORDER_TYPES, ORDER_TYPES, actor=ACTOR)
    shops = [shop for shop, count in ORDERS.items() for _ in range(count)]
    orders = [
        Submission(ORDER, {"shop": shop}, key=f"order-{number}")
        for number, shop in enumerate(shops, 1)
    ]
    return len(submit_many(orders, by=ACTOR))


@transactional
def plan_schedule() -> Schedule | None:
    """Plan the recurring job; None when the demo has planned it before."""
    if Schedule.objects.filter(created_by=ACTOR).exists():
        return None
    ensure_job_types()
    return schedules.create_schedule(actor=ACTOR, **SCHEDULE)


def ensure_job_types() -> list[str]:
    """Create the types that are missing; the others stay as operators have set them."""
    return types.ensure_types(JOB_TYPES, JOB_TYPES, actor=ACTOR)


def require_platform(write: Callable[[str], object]) -> None:
    """Return when the web and workers could run all types; else CommandError with what to do."""
    url = context_of(HTTP)["url"]
    if not http_is_allowed():
        raise CommandError(
            f"Jobs may not call {url}. Start the platform and this command with JOB_HTTP_HOSTS="
            f"{OWN_HOST}:{settings.PORT} and JOB_HTTP_NETWORKS={OWN_HOST}/32."
        )
    try:
        urllib.request.urlopen(url, timeout=5).close()  # noqa: S310
    except OSError as error:
        raise CommandError(
            f"No server answers at {url}. Start it in another terminal with: make run; if it runs "
            "on another port, give this command the same PORT."
        ) from error
    ensure_job_types()
    began = time.monotonic()
    is_waiting = False
    while True:
        now = clock.now()
        snapshots = [types.find(name).snapshot for name in JOB_TYPES]
        for each in snapshots:
            if each.is_paused(now):
                raise CommandError(f"Type {each.name} is paused; resume it in the admin.")
        missing = unserved(snapshots, active_workers(now))
        if not missing:
            return
        if time.monotonic() - began >= WORKER_SECONDS:
            raise CommandError(
                f"No worker takes jobs of type {missing[0].name}. Start one in another terminal "
                f"with: make run, or: celery -A taskplatform worker -Q {missing[0].lane}"
            )
        if not is_waiting:
            write(f"Waiting for a worker, up to {WORKER_SECONDS:.0f} s …\n")
            is_waiting = True
        time.sleep(0.5)


class JobRun:
    """The jobs of one run, known by their trace id."""

    def __init__(self, total: int) -> None:
        self.trace_id = f"demo-{secrets.token_hex(8)}"
        made = submit_jobs(counts_of(total), trace_id=self.trace_id)
        self.numbers = [each.id for each in made]
        self.ended = 0
        self._first = min(self.numbers)
        self._began = time.monotonic()

    def look(self) -> tuple[str, bool]:
        """A line of progress, and whether all have ended."""
        self.ended = self._jobs().filter(status__in=t.FINAL).count()
        rate = self.ended / (time.monotonic() - self._began)
        line = f"{bar(self.ended, len(self.numbers))} ended · {rate:,.0f} a second"
        return line, not self._jobs().filter(status__in=t.OPEN).exists()

    def rows(self) -> list[list[str]]:
        """The rows of the table, in the order of HEADINGS, with all attempts of the journal."""
        counts = Counter(self._jobs().values_list("type", "status"))
        entries = JournalEntry.objects.filter(
            source=Source.JOB, trace_id=self.trace_id, pk__gte=self._first, wait_ms__isnull=False
        ).exclude(event=t.END_RELEASED)
        waits: dict[str, list[int]] = defaultdict(list)
        runs: dict[str, list[int]] = defaultdict(list)
        columns = ("type_or_task", "to_state", "wait_ms", "run_ms")
        for name, after, wait, run in entries.values_list(*columns):
            waits[name].append(wait or 0)
            runs[name].append(run or 0)
            counts[name, "retried"] += after in t.WAITING
        return [
            [
                name,
                f"{sum(counts[name, status] for status in t.OPEN):,}",
                f"{counts[name, t.SUCCEEDED]:,}",
                f"{counts[name, t.FAILED] + counts[name, t.CANCELLED]:,}",
                f"{counts[name, 'retried']:,}",
                *(_time(times[name], part) for times in (waits, runs) for part in (50, 95)),
            ]
            for name in JOB_TYPES
        ]

    def proofs(self) -> list[Proof]:
        """The promises of jobs, checked on all rows of the run and its journal."""
        there = set(self._jobs().values_list("pk", flat=True))
        over = self._jobs().exclude(status__in=t.OPEN)
        failing = over.filter(type=FAILING)
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
            # A job has about three entries, a failing one seven.
            *audited(CHECKS, recent=max(RECENT, 5 * len(self.numbers))),
        ]

    def _jobs(self) -> Any:
        within = Job.objects.filter(pk__gte=self._first, pk__lte=max(self.numbers))
        return within.filter(trace_id=self.trace_id)


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
