"""S1.10, S4.18, I28: what a record says of a process that was killed or frozen at its work."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from apps.common import clock
from apps.jobs.handlers import Done, Fail, Later, NextStage, Retry, Submission
from apps.jobs.models import Job, Worker
from apps.jobs.rules.outcome import Outcome
from apps.jobs.runner import drain as drain_module
from apps.jobs.runner import record
from apps.jobs.runner.heartbeat import lose_dead_neighbours
from apps.jobs.runner.outbox import Outbox
from apps.jobs.runner.process import Node, Process
from apps.jobs.services.hold import running_under
from apps.jobs.services.rescue import rescue_due
from tests.jobs import drained, events_of, jobs, last_entry, row
from tests.kills import die
from tests.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

Make = Callable[..., Any]
Starts = Callable[..., list[int]]
NOT_STARTED = "its worker went offline before it started"


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    """Where the records are."""
    settings.VAR_DIR = tmp_path
    return tmp_path / "running"


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    """Called with positions, it notes that these jobs have started; returns all in order."""
    file = tmp_path / "starts"

    def starts(*positions: int) -> list[int]:
        with file.open("a+") as opened:
            opened.writelines(f"{position}\n" for position in positions)
            opened.seek(0)
            return [int(line) for line in opened]

    return starts


class Children:
    """Worker processes, each with one drain until nothing is due."""

    def __init__(self) -> None:
        self.living: list[int] = []

    def start(self) -> int:
        connections.close_all()
        child = os.fork()
        if child == 0:
            try:
                for each in connections.all(initialized_only=True):
                    del connections[each.alias]
                drained(Process(Node("worker@test", ("fast", "slow"), 2)))
            finally:
                os._exit(0)
        self.living.append(child)
        return child

    def await_change(self, child: int) -> int:
        """Wait until it stopped or ended; the signal that did it, 0 for none."""
        how = os.WUNTRACED | os.WNOHANG

        def changed() -> tuple[int, int] | None:
            found = os.waitpid(child, how)
            return found if found[0] else None

        _, status = eventually(changed)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.living.remove(child)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def run(self) -> int:
        return self.await_change(self.start())


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    for child in made.living:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def rescued() -> int:
    until = clock.now() + timedelta(seconds=10)
    return rescue_due(until=until, records=record.read_all)


def facts(numbers: list[int]) -> list[tuple[str, int]]:
    return [(row(number).status, row(number).attempts) for number in numbers]


def test_crash_costs_a_single_attempt_only_to_the_job_that_ran(
    handle: Make, children: Children, starts: Starts, process: Process
) -> None:
    """What had ended keeps its result, what had not started keeps its attempt."""

    def mail(context: Any) -> Any:
        if starts(context["position"])[-1] == 3:
            die()
        return {"sent": context["position"]}

    handle("mail", mail, max_attempts=1)
    numbers = jobs(8)

    assert children.run() == signal.SIGKILL
    assert facts(numbers) == [("running", 1)] * 8
    assert lose_dead_neighbours() == 8

    assert facts(numbers) == [("succeeded", 1)] * 3 + [("failed", 1)] + [("ready", 0)] * 4
    assert [row(number).result for number in numbers[:3]] == [{"sent": n} for n in range(3)]
    assert (row(numbers[3]).last_end, last_entry(numbers[4]).reason) == ("lost", NOT_STARTED)
    assert drained(process) == 4
    assert starts() == list(range(8))
    assert events_of(numbers[4]) == ["released", "succeeded"]
    assert Worker.objects.filter(state="gone").count() == 1


ENDS: list[tuple[Any, tuple[str, int, str]]] = [
    (None, ("succeeded", 1, "")),
    ({"é": [1, 2.5, None, True]}, ("succeeded", 1, "")),
    (Fail("no address", detail={"to": "x"}), ("failed", 1, "no address")),
    (Retry(3600, "later"), ("scheduled", 1, "later")),
    (NextStage("cut", context={"raw": 1}, priority=3, after=3600), ("scheduled", 0, "")),
    (Later(timedelta(hours=1)), ("scheduled", 0, "")),
    (float("nan"), ("failed", 1, "What the handler returned cannot be kept")),
    ("x" * 5000, ("ready", 1, "The worker went offline before the result was stored.")),
    (object(), ("ready", 1, "The worker went offline before the result was stored.")),
    (Done({"n": 1}, then=[Submission("film", {"of": 9}, key="next")]), ("succeeded", 1, "")),
    (Done(then=[Submission("nothing")]), ("failed", 1, "What the handler returned cannot be kept")),
]


def test_what_had_ended_is_settled_as_it_ended(
    handle: Make, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result too large for the record, or no JSON, is settled at once, unless that fails."""

    def film(context: Any) -> Any:
        if context["position"] == len(ENDS):
            die()
        end, _ = ENDS[context["position"]]
        if isinstance(end, Exception):
            raise end
        return end

    handle("film", film, stages=["shoot", "cut"])
    handle("film", film, stages=["shoot", "cut"])
    numbers = jobs(len(ENDS) + 1, "film", stage="shoot")
    monkeypatch.setattr(drain_module, "FIRST_BATCH", 100)
    monkeypatch.setattr("apps.jobs.runner.process.FIRST_BATCH", 100)
    monkeypatch.setattr(Outbox, "flush", lambda self: None)
    before = clock.now()

    children.run()
    lose_dead_neighbours()

    for number, (_, (status, attempts, memo)) in zip(numbers, ENDS, strict=False):
        job = row(number)
        assert (job.status, job.attempts) == (status, attempts)
        assert job.memo.startswith(memo)
    assert row(numbers[1]).result == ENDS[1][0]
    assert last_entry(numbers[2]).data["detail"] == {"to": "x"}
    assert row(numbers[3]).run_at - before >= timedelta(hours=1)
    moved = row(numbers[4])
    assert (moved.stage, moved.context, moved.priority) == ("cut", {"raw": 1}, 3)
    assert moved.run_at - before >= timedelta(hours=1)
    assert row(numbers[5]).run_at - before >= timedelta(hours=1)
    assert {row(number).last_end for number in numbers[7:9]} == {"failed"}
    assert row(numbers[-1]).last_end == "lost"
    assert row(numbers[9]).result == {"n": 1}
    [next_one] = Job.objects.exclude(parent=None)
    assert (next_one.parent, next_one.key, next_one.context) == (numbers[9], "next", {"of": 9})


def test_frozen_process_starts_nothing_when_it_goes_on_after_its_leases(
    handle: Make, children: Children, starts: Starts, process: Process
) -> None:
    """I27: what it had not started goes to others, uncounted."""

    def mail(context: Any) -> Any:
        starts(context["position"])
        if context["position"] == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return os.getpid()

    handle("mail", mail, max_attempts=1, lease_seconds=1)
    numbers = jobs(5)
    child = children.start()
    assert children.await_change(child) == signal.SIGSTOP

    assert eventually(rescued) == 5
    assert facts(numbers) == [("succeeded", 1), ("failed", 1)] + [("ready", 0)] * 3
    Job.objects.filter(pk__in=numbers[2:]).update(affinity_host="elsewhere")
    os.kill(child, signal.SIGCONT)
    assert children.await_change(child) == 0
    assert starts() == [0, 1]
    assert [events_of(number) for number in numbers[:2]] == [["succeeded"], ["lost", "stale"]]
    assert facts(numbers) == [("succeeded", 1), ("failed", 1)] + [("ready", 0)] * 3

    Job.objects.filter(pk__in=numbers[2:]).update(affinity_host="")
    # On a busy machine this process, too, may not have been heard of for too long.
    process.beat()
    # The child left the register without a word; its loop would count beside this one.
    lose_dead_neighbours()
    drained(process)
    assert starts() == list(range(5))
    assert {events[-1] for events in map(events_of, numbers[2:])} == {"succeeded"}


def test_process_that_counts_as_lost_starts_nothing(handle: Make, process: Process) -> None:
    """Its leases last, but a rescue gives its jobs to others when its heartbeats fail."""
    ran: list[int] = []

    def mail(context: Any) -> None:
        ran.append(context["position"])
        process.silent_at = clock.now()

    handle("mail", mail)
    numbers = jobs(3)

    drained(process)

    assert ran == [0]
    assert facts(numbers) == [("succeeded", 1), ("ready", 0), ("ready", 0)]


def test_process_with_the_number_of_a_dead_one_does_not_hide_its_record(
    handle: Make, children: Children
) -> None:
    """A container that starts again gives its processes the same numbers, and names."""
    handle("mail", lambda context: die(), max_attempts=1, lease_seconds=1)
    numbers = jobs(3)
    children.run()
    Worker.objects.update(pid=os.getpid())
    assert lose_dead_neighbours() == 0

    assert eventually(rescued) == 3
    assert facts(numbers) == [("failed", 1), ("ready", 0), ("ready", 0)]


def test_record_outlives_a_drain_that_removes_old_ones_while_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else all that its drain held counted as lost, when one of the jobs killed the process."""
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        record.remove_left(running_under)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    made = record.Record()
    made.begin("of the hold")
    record.remove_left(running_under)

    assert record.read_all() == {"of the hold": {}}
    made.close()


def test_record_stays_until_nothing_needs_it(
    handle: Make, children: Children, folder: Path
) -> None:
    handle("mail", lambda context: die())
    numbers = jobs(2)
    children.run()
    living = record.Record()
    living.begin("alive")

    record.remove_left(running_under)
    assert len(list(folder.iterdir())) == 2
    lose_dead_neighbours()
    record.remove_left(running_under)

    assert list(folder.iterdir()) == [living.path]
    assert facts(numbers) == [("ready", 1), ("ready", 0)]
    living.close()
    assert list(folder.iterdir()) == []


def test_without_its_record_all_that_was_held_counts(
    handle: Make, children: Children, folder: Path
) -> None:
    """As after the loss of the machine."""

    def mail(context: Any) -> None:
        [file] = folder.iterdir()
        file.unlink()
        die()

    handle("mail", mail)
    numbers = jobs(3)
    children.run()
    lose_dead_neighbours()

    assert facts(numbers) == [("ready", 1)] * 3
    assert set(Job.objects.values_list("last_end", flat=True)) == {"lost"}


def test_without_a_place_for_a_record_jobs_are_held_one_by_one(
    handle: Make, process: Process, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("in the way")
    seen: list[int] = []
    handle("mail", lambda context: seen.append(Job.objects.filter(status="running").count()))
    jobs(3)

    assert drained(process) == 3

    assert seen == [1, 1, 1]
    assert "jobs are held one by one" in caplog.text


def test_full_disk_leaves_no_part_of_a_record(folder: Path) -> None:
    child = os.fork()
    if child == 0:
        status = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            record.Record()
        except OSError:
            status = 1 + len(list(folder.iterdir()))
        finally:
            os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_every_part_of_an_outcome_is_kept() -> None:
    """Else the rescue would put something else in its place."""
    given: dict[str, Any] = {
        **{field.name: field.name for field in fields(Outcome) if field.name != "id"},
        **{"retry_after": timedelta(seconds=1.5), "delay": timedelta(hours=1)},
        # A log may be long; what a killed worker had not sent is lost.
        **{"run_at": clock.now(), "priority": 3, "type": "", "log": None},
        "submit": [Submission("mail", {"a": 1}, key="k", delay=timedelta(minutes=1))],
    }
    made = record.Record()
    made.begin(given["token"])

    assert made.ended(outcome := Outcome(id=7, **given))
    assert not made.ended(Outcome(id=8, token="token", end="succeeded", result=object()))

    seen = record.read_all()["token"]
    made.close()
    assert (seen[7].outcome, seen[8].outcome) == (outcome, None)


def test_batch_may_begin_before_the_last_one_is_settled() -> None:
    made = record.Record()
    for token, job in (("a", 1), ("b", 2), ("c", 3)):
        made.begin(token)
        made.took()
        made.started(job)
    for token in ("failed", "failed, too"):
        made.begin(token)

    left = {token: list(seen) for token, seen in record.read_all().items()}
    made.close()
    assert left == {"c": [3], "failed, too": []}


def test_line_that_was_being_written_does_not_count(folder: Path) -> None:
    made = record.Record()
    made.begin("a")
    made.started(1)
    content = made.path.read_bytes()
    made.close()
    for cut in range(len(b"a\nS 1")):
        torn = content[:cut] + bytes(len(content) - cut)
        (folder / "torn").write_bytes(torn)
        assert all(not seen for seen in record.read_all().values())

    (folder / "torn").write_bytes(b"a\nS x\n")
    assert record.read_all() == {}
