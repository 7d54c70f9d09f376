"""Whatever dies at whatever statement: steps begin once, their jobs are made once, and runs end
once."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apps.common import clock
from apps.common.audit import audit
from apps.common.errors import Conflict, NotFound, PlatformError
from apps.dispatch.models import OnceTask
from apps.dispatch.services import expiry, pull
from apps.dispatch.services import parts as of_dispatch
from apps.flows import sweeps
from apps.flows.models import FlowRun
from apps.flows.rules import joins
from apps.flows.services import control, ends
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
from tests.flows import OLGA, contexts, job, jobs, ref, started, states, task, wait, work
from tests.integration.flows.conftest import sends
from tests.jobs import job_type
from tests.kills import Diary, kills, play

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

PEOPLE = ("uid_a", "uid_b", "uid_c")
# The sweep looks once a second, so so many looks that pass a step over are as many seconds wherever
# it is alive and has its turn.
LATE = 3
BY_PEOPLE = ("paused", "resumed", "cancel_asked")


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


class Aborted(Exception):
    """An advance that comes to nothing."""


@pytest.mark.parametrize(
    ("runs", "seconds"), [(12, 5), pytest.param(150, 20, marks=pytest.mark.long)]
)
def test_random_flows_while_processes_die(
    runs: int, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I71, I72: workers, people, the web, the sweep and who gets its messages are killed, and looks
    abort in the middle."""
    drawn, diary, messages = random.Random(f"{runs}"), Diary(tmp_path / "diary"), Messages()
    sends(monkeypatch, messages.send)
    job_type("mail", max_attempts=2, retry_delay_seconds=0, lease_seconds=1, batch_limit=25)
    factories.group("gid_sales", [*PEOPLE])
    definitions = [_definition(drawn) for _ in range(runs)]
    note = Advance.note

    def aborting(self: Advance, *args: Any, **kwargs: Any) -> None:
        """Of ten looks that change anything one is dropped with the first, second or third."""
        note(self, *args, **kwargs)
        left = vars(self).setdefault("left", random.choice([0] * 27 + [1, 2, 3])) - 1
        vars(self)["left"] = left
        if left == 0:
            raise Aborted

    due = ends.due

    def noting(now: datetime) -> list[int]:
        found = due(now)
        diary.note("look", due=found)
        return found

    monkeypatch.setattr(Advance, "note", aborting)
    monkeypatch.setattr(ends, "due", noting)
    roles: dict[str, Callable[[], object]] = {
        "worker": _worker,
        "other worker": _worker,
        "person": _person,
        "web": lambda: _web(definitions),
        "message": lambda: sweeps.advance_run(messages.take()),
        "look": _look,
        "rescue": _rescue,
    }
    play(roles, diary, seconds=seconds, is_over=lambda: _all_over(runs))
    messages.close()
    monkeypatch.setattr(Advance, "note", note)

    assert len(diary.notes("kill")) >= seconds
    errors = [each["error"] for each in diary.notes("error")]
    assert not [each for each in errors if not each.rstrip().endswith(Aborted.__qualname__)]
    assert not breaches()
    late = sorted(late for run in FlowRun.objects.all() for late in _check(run, diary))
    assert not [each for each in late if each.looks > max(LATE, 1 + each.age / 10)]


def _all_over(runs: int) -> bool:
    return FlowRun.objects.exclude(finished_at=None).count() == runs


class Late(NamedTuple):
    """How late a step ended after the last of its jobs: how often the sweep asked meanwhile what is
    to be looked at, and its run was not among that. In seconds it is as late as the machine is
    busy, but at least the former. `age` is how many seconds its jobs took."""

    looks: int
    age: float
    seconds: float
    step: str


def _check(run: FlowRun, diary: Diary) -> Iterator[Late]:
    """Each step began once and ended once, with all its jobs; nothing was made twice. Yields how
    late each step ended."""
    entries = JournalEntry.objects.timeline(Source.FLOW, run.pk)
    said = Counter((entry.event, (entry.data or {}).get("step")) for entry in entries)
    once = {pair: count for pair, count in said.items() if pair[0] not in BY_PEOPLE}
    assert set(once.values()) == {1} and ("ended", None) in once
    if run.status == "cancelled":
        assert said["cancel_asked", None] == 1
    else:
        failed = [row for row in run.steps.all() if row.state == joins.FAILED]
        must = [row for row in failed if not run.read.steps[row.name].is_optional]
        assert run.status == ("failed" if must else "succeeded")
    for row in run.steps.all():
        assert row.state != joins.ACTIVE
        own = Job.objects.filter(part_of=row.pk)
        assert own.count() == row.made and not own.filter(finished_at=None).exists()
        assert OnceTask.objects.filter(part_of=row.pk).count() == (row.task is not None)
        if row.made:
            assert row.started_at is not None and row.ended_at is not None
            last = max(own.values_list("finished_at", flat=True))
            passed = [
                look
                for look in diary.notes("look")
                if last.timestamp() <= look["at"] <= row.ended_at.timestamp()
                if run.pk not in look["due"]
            ]
            age, seconds = last - row.started_at, row.ended_at - last
            step = f"{run.pk} {row.name}"
            yield Late(len(passed), age.total_seconds(), seconds.total_seconds(), step)


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
class Messages:
    """The broker: what somebody has taken is gone with him."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()

    def send(self, run: int) -> None:
        os.write(self._in, run.to_bytes(8, "big"))

    def take(self) -> int:
        """Wait for the next."""
        return int.from_bytes(os.read(self._out, 8), "big")

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)


def _web(definitions: list[dict[str, Any]]) -> None:
    """Start all runs, and meddle with those that are open."""
    count = FlowRun.objects.count()
    time.sleep(0.05)
    if count < len(definitions):
        start("", definition=definitions[count], key=f"{count}")
        return
    running = FlowRun.objects.filter(status="running")
    run = running.order_by("-is_paused", "?").first()
    if run is None:
        return
    acts: list[tuple[int, Callable[[], object]]] = [
        (8, lambda: control.pause(run=run, **OLGA)),
        (8, lambda: control.finish(run=run, step=_gate(run), **OLGA)),
        (1, lambda: control.cancel(run=run, force=random.random() < 0.5, **OLGA)),
    ]
    [act] = random.choices([act for _, act in acts], [often for often, _ in acts])
    # It may have come further by then.
    with suppress(Conflict, NotFound):
        if run.is_paused:
            control.resume(run=run, **OLGA)
        else:
            act()


def _gate(run: FlowRun) -> str:
    """A step of the run that waits, if there is one."""
    waits = run.steps.filter(kind="wait", state="active").values_list("name", flat=True)
    return waits.first() or ""


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
    """Once a second, as the beat has it."""
    begun = time.monotonic()
    sweeps.look()
    time.sleep(max(0.0, begun + 1 - time.monotonic()))


def _rescue() -> None:
    now = clock.now()
    promote_due(now=now)
    rescue_due(until=now + timedelta(seconds=1))
    expiry.expire_due(until=now + timedelta(seconds=1))
    time.sleep(0.2)


def breaches() -> list[str]:
    return [str(each) for checked in audit(CHECKS) for each in checked.breaches]
