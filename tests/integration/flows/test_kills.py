"""Whatever dies at whatever statement: steps begin once, their jobs are made once, and runs end
once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from apps.common import clock
from apps.common.audit import audit
from apps.common.errors import PlatformError
from apps.dispatch.models import OnceTask
from apps.dispatch.services import expiry, pull
from apps.dispatch.services import parts as of_dispatch
from apps.flows import sweeps
from apps.flows.models import FlowRun
from apps.flows.rules import joins
from apps.flows.services.advance import Advance, advance
from apps.flows.services.invariants import CHECKS
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.services import parts as of_jobs
from apps.jobs.services.hold import Holder, hold
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.settle import settle
from apps.journal.models import JournalEntry, Source
from tests import factories
from tests.flows import contexts, job, jobs, ref, run_of, started, states, task, wait, work
from tests.jobs import job_type
from tests.kills import kills

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

PEOPLE = ("uid_a", "uid_b", "uid_c")
# Seconds from the last end of a step's jobs to its own, for half of the steps: how long the others
# take, whose hook was killed, is a matter of how busy the machine is.
LATE = 3


def test_advance_killed_at_any_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """I71, I72: all that one look changes, or nothing."""
    for each in (of_jobs.parts, of_dispatch.parts):
        monkeypatch.setattr(each, "_listeners", [])
    job_type("mail", max_attempts=1)
    factories.group("gid_sales", [*PEOPLE])
    run = started(
        job("list"),
        jobs("many", ref("list", "items")),
        task("check", needs=["list"]),
        job("never", needs=["list"], when="failure"),
    )
    monkeypatch.setattr("tests.flows.advance", lambda number: False)
    work(run, result={"items": [1, 2, 3]})
    for _ in kills(lambda: advance(run), more_than=15):
        assert states(run) == {
            "list": "active", "many": "blocked", "check": "blocked", "never": "blocked",
        }  # fmt: skip
        assert Job.objects.count() == 1 and not OnceTask.objects.exists()
    assert states(run) == {
        "list": "succeeded", "many": "active", "check": "active", "never": "skipped",
    }  # fmt: skip
    assert [each["item"] for each in contexts(run, "many")] == [1, 2, 3]
    assert OnceTask.objects.count() == 1 and not breaches()


def test_start_killed_at_any_statement() -> None:
    job_type("mail")
    definition = {"steps": [jobs("many", [1, 2]), job("last", needs=["many"])]}
    for _ in kills(lambda: start("", definition=definition, key="k"), more_than=6):
        assert not FlowRun.objects.exists() and not Job.objects.exists()
    assert Job.objects.count() == 2 and not breaches()


@pytest.mark.parametrize(
    ("runs", "seconds"), [(12, 5), pytest.param(150, 20, marks=pytest.mark.long)]
)
def test_random_flows_while_processes_die(
    runs: int, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I71, I72: workers, people and the sweep are killed, and looks abort in the middle."""
    drawn = random.Random(f"{runs}")
    for each in (of_jobs.parts, of_dispatch.parts):
        monkeypatch.setattr(each, "_listeners", [_hear])
    job_type("mail", max_attempts=2, retry_delay_seconds=0, lease_seconds=1, batch_limit=25)
    factories.group("gid_sales", [*PEOPLE])
    numbers = [start("", definition=_definition(drawn)).id for _ in range(runs)]
    note = Advance.note

    def aborting(self: Advance, *args: Any, **kwargs: Any) -> None:
        note(self, *args, **kwargs)
        if random.random() < 0.05:
            raise RuntimeError("aborted in the middle")

    monkeypatch.setattr(Advance, "note", aborting)
    monkeypatch.setattr(sweeps, "BROKEN_FOR", timedelta(seconds=1))
    killed = _play(numbers, seconds)
    monkeypatch.setattr(Advance, "note", note)

    assert killed >= seconds
    found = [*FlowRun.objects.filter(pk__in=numbers)]
    assert Counter(run.status for run in found).keys() <= {"succeeded", "failed"}
    assert not breaches()
    late = sorted(delay for run in found for delay in _check(run))
    assert late[len(late) // 2] < timedelta(seconds=LATE), late[-3:]


def _check(run: FlowRun) -> Iterator[timedelta]:
    """Each step began once and ended once, with all its jobs; nothing was made twice. Yields how
    long after the last of its jobs each step ended."""
    entries = JournalEntry.objects.timeline(Source.FLOW, run.pk)
    said = Counter((entry.event, (entry.data or {}).get("step")) for entry in entries)
    assert set(said.values()) == {1} and ("ended", None) in said
    failed = [row for row in run.steps.all() if row.state == joins.FAILED]
    must = [row for row in failed if not run.read.steps[row.name].is_optional]
    assert (run.status == "failed") == bool(must)
    for row in run.steps.all():
        assert row.state != joins.ACTIVE
        own = Job.objects.filter(part_of=row.pk)
        assert own.count() == row.made and not own.filter(finished_at=None).exists()
        assert OnceTask.objects.filter(part_of=row.pk).count() == (row.task is not None)
        if row.made:
            last = max(own.values_list("finished_at", flat=True))
            assert row.ended_at is not None
            yield row.ended_at - last


def _definition(drawn: random.Random) -> dict[str, Any]:
    """5 to 9 steps of all kinds, each after some of those before it."""
    steps: list[dict[str, Any]] = [job("s0")]
    for n in range(1, drawn.randint(5, 9)):
        name, before = f"s{n}", [step["name"] for step in steps]
        common: dict[str, Any] = {
            "needs": drawn.sample(before, min(len(before), drawn.choice([1, 1, 2]))),
            "when": drawn.choice(["success"] * 4 + ["failure", "always"]),
            "optional": drawn.random() < 0.3,
        }
        if drawn.random() < 0.2:
            common["if"] = {"step": drawn.choice(before), "path": "ok", "equals": 1}
        kind = drawn.choices(["job", "jobs", "wait", "task"], [4, 3, 1, 2])[0]
        if kind == "job":
            steps.append(job(name, context={"of": ref(common["needs"][0])}, **common))
        elif kind == "jobs":
            least = drawn.choice([1, 23, 25])
            steps.append(jobs(name, [*range(25)], at_least=least, **common))
        elif kind == "wait":
            steps.append(wait(name, seconds=1, **common))
        else:
            steps.append(task(name, quota=2, at_least=1, lease_seconds=2, **common))
    return {"steps": steps}


# --- processes ------------------------------------------------------------------------------------
def _hear(parts: Any) -> None:
    """The hook without the broker: in the process that heard it."""
    for run in sweeps.ends.concerned(parts):
        advance(run)


def _play(numbers: list[int], seconds: int) -> int:
    """Workers, people and the sweep, one of which is killed again and again for so long; then they
    come to the end of all runs. Returns how many were killed."""
    roles: list[Callable[[], None]] = [_worker, _worker, _person, _look, _rescue]
    living = {_forked(role): role for role in roles}
    killed, until, limit = 0, time.monotonic() + seconds, time.monotonic() + 20 * seconds + 60
    try:
        while True:
            # A process needs a part of a second until it does anything.
            time.sleep(random.uniform(0.3, 0.7))
            still = FlowRun.objects.filter(pk__in=numbers, finished_at=None).exists()
            if time.monotonic() > until and not still:
                return killed
            assert time.monotonic() < limit, [
                (run_of(n).status, states(n)) for n in numbers if run_of(n).finished_at is None
            ]
            if time.monotonic() < until:
                victim = random.choice([*living])
                os.kill(victim, signal.SIGKILL)
                os.waitpid(victim, 0)
                killed += 1
                role = living.pop(victim)
                living[_forked(role)] = role
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _forked(role: Callable[[], None]) -> int:
    connections.close_all()
    child = os.fork()
    if child == 0:
        random.seed()
        try:
            while True:
                with suppress(Exception):
                    role()
        finally:
            os._exit(1)
    return child


def _worker() -> None:
    held = hold(holder=Holder(f"w:{os.getpid()}", "w"), types=("mail",), limit=25, rotation=0)
    if not held:
        time.sleep(0.05)
        return
    ends = ["succeeded"] * 9 + ["failed"]
    settle(
        outcomes=[
            each.ended(end, **({"result": {"ok": 1}} if end == "succeeded" else {}))
            for each in held
            for end in [random.choice(ends)]
        ]
    )


def _person() -> None:
    uid = random.choice(PEOPLE)
    given: Any = pull.answer_pull(uid)
    if isinstance(given, pull.Nothing):
        time.sleep(0.05)
        return
    with suppress(PlatformError):
        pull.call_back(uid, given.pk, random.choice(["succeeded", "succeeded", "failed"]))


def _look() -> None:
    sweeps.look_at_due(until=clock.now() + timedelta(seconds=5))
    time.sleep(0.2)


def _rescue() -> None:
    now = clock.now()
    promote_due(now=now)
    rescue_due(until=now + timedelta(seconds=1))
    expiry.expire_due(until=now + timedelta(seconds=1))
    time.sleep(0.2)


def breaches() -> list[str]:
    return [str(each) for checked in audit(CHECKS) for each in checked.breaches]
