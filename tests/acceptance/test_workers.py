"""S1.10, S4.18, I28-I30, F2, F3, F5, F23: workers with real processes, and how they die."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.databases import copy_database
from tests.processes import ROOT, RunningProcess, eventually, free_port
from tests.servers import MariaDBServer, mariadb_server
from tests.workers import CELERY, Workers, children, is_alive, traces, unread

# Forked workers run with Redis, and these tests on a run that has one.
forked = pytest.mark.mariadb


@pytest.fixture
def mariadb(environment: dict[str, str], migrated_database: str) -> Iterator[MariaDBServer]:
    """A server of the test's own, to be asked for before the workers that are to use it."""
    with mariadb_server() as server:
        copy_database(migrated_database, server.url)
        environment["DATABASE_URL"] = server.url
        yield server


@pytest.fixture
def swept(workers: Workers) -> Workers:
    """Workers that the test starts, with sweeps that run."""
    workers.sweeps()
    return workers


def test_forked_worker_without_redis_says_what_to_do(
    environment: Mapping[str, str], workers: Workers
) -> None:
    ended = subprocess.run(
        [*CELERY, "--pool", "prefork", "-Q", "fast,slow"],
        env={**environment, "REDIS_URL": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ended.returncode == 1
    assert "Forked workers need Redis as their broker: set REDIS_URL" in ended.stderr


@forked
def test_poison_fails_alone_after_exactly_its_attempts(
    swept: Workers, manage: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """I26-I29, I39, I53: with a single attempt, too, each neighbour runs exactly once. The audit is
    silent while processes die, and after."""
    trace = tmp_path / "trace"
    twice = ["exits", "segfaults", "loops", "rants", "unpicklable"]
    once = {"type": "segfaults", "max_attempts": 1}
    good = {**once, "context": {"always": False, "file": str(trace)}}
    poisons = [*({"type": each} for each in twice), once]
    numbers = swept.submit(*poisons[:-1], *[good] * 30, once, *[good] * 29)
    swept.drains()

    under_way = manage("audit")
    assert swept.settled() == {"failed": len(poisons), "succeeded": 59}
    for audit in (under_way, manage("audit")):
        assert (audit.returncode, audit.stdout[:4]) == (0, "ok: "), audit.stdout

    bad = [*numbers[: len(twice)], numbers[len(twice) + 30]]
    for poison, number in zip(poisons, bad, strict=True):
        status, attempts, memo = swept.job(number)
        assert (status, attempts) == ("failed", poison.get("max_attempts", 2)), poison
        assert len(memo) <= 2000, poison
        # A job that had not started when a neighbour killed the process is released uncounted.
        told = [each for each in swept.events(number) if each != "released"]
        assert len(told) == attempts, poison
    assert {swept.job(number)[1] for number in numbers if number not in bad} == {1}
    assert len(traces(trace)) == 59


@forked
@pytest.mark.long
@pytest.mark.parametrize("attempts", [1, 2])
def test_segfault_fails_alone_among_its_neighbours(
    swept: Workers, tmp_path: Path, attempts: int
) -> None:
    """More of them than one hold takes."""
    trace = tmp_path / "trace"
    context = {"always": False, "file": str(trace)}
    good = {"type": "segfaults", "context": context, "max_attempts": attempts}
    bad = {"type": "segfaults", "max_attempts": attempts}
    numbers = swept.submit(*[good] * 50, bad, *[good] * 49)
    swept.drains()

    assert swept.settled() == {"failed": 1, "succeeded": 99}
    assert swept.job(numbers[50])[:2] == ("failed", attempts)
    assert {swept.job(number)[1] for number in numbers} == {1, attempts}
    assert len(traces(trace)) == 99


@forked
@pytest.mark.parametrize(
    "killed",
    ["parent", *(pytest.param(each, marks=pytest.mark.long) for each in ("child", "group"))],
)
def test_job_of_a_killed_worker_is_done_within_seconds(
    swept: Workers, tmp_path: Path, killed: str
) -> None:
    trace = tmp_path / "trace"
    drains = swept.drains()
    [number] = swept.submit({"type": "nap", "context": {"file": str(trace)}})
    [first] = eventually(lambda: traces(trace))
    if killed != "child":
        swept.drains(name="others")
        eventually(lambda: len(swept.processes()) == 4)
    log = f"SELECT text FROM jobs_log WHERE job = {number} AND hold = 1 ORDER BY part"
    eventually(lambda: swept.rows(log))
    time.sleep(1)
    killed_at = datetime.now(UTC)
    if killed == "child":
        os.kill(first, signal.SIGKILL)
    else:
        if killed == "parent":
            os.kill(drains.pid, signal.SIGKILL)
        else:
            drains.signal_all(signal.SIGKILL)

    # Nobody waits for its lease, nor until it counts as offline.
    eventually(lambda: swept.job(number)[0] == "succeeded", seconds=20)

    # It is marked as lost after its jobs, which may be done by then.
    assert eventually(swept.losses) == {"its process is gone"}
    assert swept.events(number) == ["lost", "succeeded"]
    assert swept.job(number)[1] == 2
    assert not is_alive(first)
    # Its log was sent every 2 s; a busy machine needs some more.
    last = swept.rows(log)[-1][0].splitlines()[-1].partition(" ")[0]
    assert killed_at - datetime.fromisoformat(last) < timedelta(seconds=2.5)


@forked
@pytest.mark.long
def test_late_result_of_a_frozen_worker_is_refused(swept: Workers, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    swept.drains()
    waking = tmp_path / "waking"
    job = {"type": "short-lease", "context": {"file": str(trace), "until": str(waking)}}
    [number] = swept.submit(job)
    [frozen] = eventually(lambda: traces(trace))

    os.kill(frozen, signal.SIGSTOP)
    try:
        eventually(lambda: swept.job(number)[0] == "succeeded")
    finally:
        waking.touch()
        os.kill(frozen, signal.SIGCONT)

    eventually(lambda: swept.events(number) == ["lost", "stale", "succeeded"])
    assert swept.job(number)[:2] == ("succeeded", 2)


@pytest.mark.parametrize(
    ("pool", "how"),
    [
        pytest.param("prefork", "SIGTERM", marks=[forked, pytest.mark.long]),
        pytest.param("prefork", "SIGTERM to all", marks=forked),
        pytest.param("prefork", "SIGQUIT", marks=[forked, pytest.mark.long]),
        ("threads", "SIGTERM"),
    ],
)
def test_stop_lets_end_what_ends_soon_and_leaves_nothing_running(
    swept: Workers, tmp_path: Path, pool: str, how: str
) -> None:
    """What runs longer than the stop allows is put back and uses up no attempt."""
    trace, may_end = tmp_path / "trace", tmp_path / "end"
    drains = swept.drains(pool=pool, slots=4, JOB_STOP_SECONDS="3")
    late = {"type": "nap", "context": {"file": str(trace)}}
    soon = {"type": "nap", "context": {"file": str(trace), "until": str(may_end)}}
    first, second, *_ = swept.submit(late, soon, *[{"type": "good"}] * 10)
    eventually(lambda: len(traces(trace)) == 2)

    number = signal.Signals[how.partition(" ")[0]]
    if how.endswith("all"):
        drains.signal_all(number)
    else:
        drains.process.send_signal(number)
    eventually(lambda: not swept.processes())
    may_end.touch()
    eventually(lambda: not drains.lives())

    assert "running" not in swept.statuses()
    assert swept.processes() == []
    assert swept.job(first)[:2] == ("scheduled", 0)
    if how != "SIGQUIT":
        assert swept.job(second)[:2] == ("succeeded", 1)
        # One that has not started after a while is released, for another slot.
        assert swept.events(second)[-1:] == ["succeeded"]


@forked
@pytest.mark.long
def test_stop_ends_a_child_that_has_just_been_given_a_drain(workers: Workers) -> None:
    """Its pool forgets what was not confirmed before the stop, and never reads the answer, which
    the child would await for half a minute."""
    drains = workers.drains()
    eventually(lambda: len(workers.processes()) == 2)
    pool = children(drains.pid)
    for pid in pool:
        os.kill(pid, signal.SIGSTOP)
    workers.send_drain("fast")
    eventually(lambda: len(unread(pool)) == 1)

    drains.process.terminate()
    # Now the word to end waits for each of them, for one behind the message.
    eventually(lambda: len(unread(pool)) == 2)
    for pid in pool:
        os.kill(pid, signal.SIGCONT)

    eventually(lambda: not drains.lives())
    assert drains.process.returncode != -signal.SIGALRM
    assert workers.processes() == []


@forked
def test_stop_is_over_in_time_whatever_keeps_a_child(workers: Workers) -> None:
    drains = workers.drains(JOB_STOP_SECONDS="0")
    eventually(lambda: len(workers.processes()) == 2)
    pool = children(drains.pid)
    os.kill(pool[0], signal.SIGSTOP)

    drains.process.terminate()
    eventually(lambda: not drains.lives())

    assert drains.process.returncode == -signal.SIGALRM
    assert "most recent call first" in drains.output


def test_stop_ends_the_beat_that_hears_of_nothing(workers: Workers) -> None:
    sweeps = workers.sweeps()
    sweeps.await_output(" ready.")
    [beat] = children(sweeps.pid)
    os.kill(beat, signal.SIGSTOP)

    sweeps.process.terminate()

    eventually(lambda: not sweeps.lives())


@pytest.mark.mariadb
def test_redis_that_vanishes_and_comes_back_costs_only_time(
    workers: Workers,
    start: Callable[..., RunningProcess],
    tmp_path: Path,
) -> None:
    """S4.13, S4.17, F12, I9: workers poll by themselves while no wake-up and no message comes, and
    sweeps run where beat does."""
    port = str(free_port())
    command = ("redis-server", "--port", port, "--save", "", "--dir", str(tmp_path))
    redis = start(*command)
    redis.await_output("Ready to accept connections")
    address = f"redis://127.0.0.1:{port}/0"
    workers.environment["REDIS_URL"] = address
    workers.sweeps(REDIS_URL=address)
    workers.drains(REDIS_URL=address)
    job = {"type": "good"}
    [first] = workers.submit(job)
    eventually(lambda: workers.job(first)[0] == "succeeded")

    redis.signal_all(signal.SIGKILL)
    redis.process.wait()
    [second] = workers.submit(job)
    eventually(lambda: workers.job(second)[0] == "succeeded")
    rounds = "SELECT fence FROM common_sweeplease WHERE name = 'jobs.rescue'"
    [(before,)] = workers.rows(rounds)
    eventually(lambda: workers.rows(rounds)[0][0] > before + 3)
    start(*command).await_output("Ready to accept connections")
    [third] = workers.submit(job)
    eventually(lambda: workers.job(third)[0] == "succeeded")


@pytest.mark.mariadb
def test_mariadb_that_is_killed_and_comes_back_costs_only_time(
    mariadb: MariaDBServer,
    swept: Workers,
    manage: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """F6: no job is lost, none is stuck, and nobody has to start a worker again."""
    trace, back = tmp_path / "trace", tmp_path / "back"
    parents = [swept.drains(), swept.drains(pool="threads", name="threads")]
    eventually(lambda: len(swept.processes()) == 3)
    nap = {"type": "nap", "context": {"file": str(trace), "seconds": 0.05}}
    # However late the blow falls, some are left for the time after it.
    late = {"type": "nap", "context": {"file": str(trace), "until": str(back)}}
    numbers = swept.submit(*[nap] * 60, *[late] * 60)
    eventually(lambda: traces(trace))

    mariadb.kill()
    back.touch()
    eventually(lambda: all("database does not answer" in each.output for each in parents))
    before = len(traces(trace))
    mariadb.start()
    eventually(lambda: len(traces(trace)) > before)

    assert swept.settled() == {"succeeded": len(numbers)}
    succeeded = "SELECT subject_id FROM journal_journalentry WHERE event = 'succeeded'"
    assert sorted(row[0] for row in swept.rows(succeeded)) == sorted(numbers)
    assert [each.process.poll() for each in parents] == [None, None]
    audit = manage("audit")
    assert (audit.returncode, audit.stdout[:4]) == (0, "ok: "), audit.stdout


@pytest.mark.long
@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=forked)])
def test_long_jobs_of_others_do_not_keep_the_platform_waiting(swept: Workers, pool: str) -> None:
    """Of four slots they have two, one is for fast jobs, and one for what the platform runs."""
    swept.drains(pool=pool, slots=4)
    swept.submit(*[{"type": "sleep", "context": {"seconds": 60}}] * 12)
    running = "SELECT COUNT(*) FROM jobs_job WHERE status = 'running'"
    eventually(lambda: swept.rows(running) == [(2,)], seconds=60)

    # It fails at once: there is no such delivery.
    [own] = swept.submit({"type": "deliver", "context": {"delivery": 1}, "max_attempts": 1})

    of_own = f"SELECT status FROM jobs_job WHERE id = {own}"
    eventually(lambda: swept.rows(of_own) == [("failed",)], seconds=30)
    assert swept.rows(running) == [(2,)]
