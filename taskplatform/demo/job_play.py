"""`demo --jobs`: submits jobs of four types, shows how they drain, and checks the promises."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from apps.common import clock
from apps.jobs.conf import conf
from apps.jobs.models import Job, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.services import register, types
from taskplatform.demo.job_run import COLUMNS, Run
from taskplatform.demo.job_types import HTTP, KINDS, counts_of, ensure_job_types, own_url
from taskplatform.demo.job_types import submit_demo_jobs as submit
from taskplatform.demo.outcome import Check
from taskplatform.demo.table import lines_of

LOOK_EVERY_SECONDS = 0.5
# Where lines cannot be overwritten, one table in so many seconds is enough.
PLAIN_EVERY_SECONDS = 10.0
TRIAL_SECONDS = 15.0
WORKER_SECONDS = 10.0
_UP = "\x1b[{}F"


class CannotPlay(Exception):
    """What keeps the jobs of the demo from being run, and what to do about it."""


class JobPlay:
    """One run of the demo's jobs; `write` gets text for the terminal."""

    def __init__(self, write: Callable[[str], None], *, in_place: bool) -> None:
        self._write = write
        self._in_place = in_place
        self._shown_lines = 0
        self._plain_at = 0.0

    def run(self, total: int, seconds: int) -> tuple[list[Check], float]:
        """Submit, watch until all have ended or the time is up, judge; checks and seconds."""
        ensure_job_types()
        demand_workers()
        self._try_http()
        trace_id = f"demo-{secrets.token_hex(8)}"
        began = time.monotonic()
        made = submit(counts_of(total), trace_id=trace_id)
        took = time.monotonic() - began
        self._write(f"Submitted {total:,} jobs of 4 types in {took:.1f} s, in one transaction.\n\n")
        run = Run([each.id for each in made], trace_id)
        took = self._watch(run, began, seconds)
        self._write(
            f"\n{run.ended:,} jobs ended in {took:.0f} s, {run.ended / took:,.0f} a second.\n"
        )
        return run.checks(), took

    def _watch(self, run: Run, began: float, seconds: int) -> float:
        last, last_at = 0, began
        while True:
            run.look()
            now = time.monotonic()
            rate = (run.ended - last) / max(now - last_at, 0.001)
            last, last_at = run.ended, now
            over = not run.open or now - began >= seconds
            self._show(run, now - began, rate, last=over)
            if over:
                return now - began
            time.sleep(LOOK_EVERY_SECONDS)

    def _show(self, run: Run, seconds: float, rate: float, *, last: bool) -> None:
        if not self._in_place and not last and seconds < self._plain_at:
            return
        self._plain_at = seconds + PLAIN_EVERY_SECONDS
        lines = [
            f"{seconds:4.0f} s   {run.ended:,} of {len(run.numbers):,} ended   {rate:,.0f} jobs/s",
            *lines_of(COLUMNS, [each.cells(name) for name, each in run.figures.items()]),
        ]
        if self._in_place:
            back = _UP.format(self._shown_lines) if self._shown_lines else ""
            self._write(back + "".join(f"{line}\x1b[K\n" for line in lines))
            self._shown_lines = len(lines)
        else:
            self._write("".join(f"{line}\n" for line in lines) + ("" if last else "\n"))

    def _try_http(self) -> None:
        """Let one job call the platform before thousands do, where that may not be allowed."""
        [job] = submit({HTTP: 1}, trace_id="")
        until = time.monotonic() + TRIAL_SECONDS
        while time.monotonic() < until:
            status, memo = Job.objects.values_list("status", "memo").get(pk=job.id)
            if status == t.SUCCEEDED:
                return
            if memo or status in t.FINAL:
                raise CannotPlay(
                    f"A job that calls {own_url()} failed: {memo or status} The workers need "
                    f"JOB_HTTP_HOSTS={_host()} and JOB_HTTP_NETWORKS=127.0.0.1/32, and the web "
                    "must answer there; `make run` on SQLite sees to both, if this command has the "
                    "same PORT."
                )
            time.sleep(0.1)
        raise CannotPlay(
            f"Job {job.id}, the first of type {HTTP}, did not end within {TRIAL_SECONDS:.0f} s; "
            f"its page in the admin tells why."
        )


def _host() -> str:
    return own_url().removeprefix("http://").partition("/")[0]


def demand_workers() -> None:
    """Return when living workers take all types of the demo; CannotPlay says what is missing."""
    living = _await_workers()
    if not living:
        raise CannotPlay(
            "No worker is alive that could run jobs. Start the platform in another terminal with: "
            f"make run. One that died is noticed after {conf.JOB_WORKER_SILENCE.seconds} s."
        )
    for name, problem in _idle(living):
        raise CannotPlay(f"No living worker takes jobs of type {name}: {problem}")


def _await_workers() -> list[Worker]:
    """The workers that take jobs; a platform that has just started gets a little time."""
    until = time.monotonic() + WORKER_SECONDS
    while True:
        living = [row for row in register.alive(clock.now()) if row.state == Worker.State.ACTIVE]
        if living or time.monotonic() >= until:
            return living
        time.sleep(0.25)


def _idle(living: Sequence[Worker]) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        policy = types.find(kind.name).snapshot
        if policy.is_paused(clock.now()):
            yield kind.name, "it is paused; resume it in the admin."
        elif not any(policy.lane in worker.lanes for worker in living):
            yield kind.name, f"start one with: celery -A taskplatform worker -Q {policy.lane}"
