"""The runner as a whole: from submit to done, and how soon an idle worker starts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from django.core.management.base import CommandError
from django.db import transaction

from apps.common.db import execute, fetch, placeholders, table
from apps.jobs.handlers import registry
from apps.jobs.models import Job, Worker
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Node, Process
from apps.jobs.services.submit import Submission, submit, submit_many
from taskplatform.demo.terminal import percentile
from tests.benchmark import backlog, handlers, plain_celery
from tests.benchmark.figures import Figure, figure, median
from tests.benchmark.fleet import OURS, PLAIN, READY_SECONDS, await_true, prefork, worker

SWEEPS = ["--pool", "threads", "-c", "2", "--queues", "sweeps", "--beat"]
LANES = ("fast", "slow")


# --- Beside plain Celery ---------------------------------------------------------------------
def beside_celery(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Two forked processes of ours and two of plain Celery, on the same Redis, in turn."""
    count, rounds = (20_000, 3) if quick else (40_000, 5)
    with worker(PLAIN, folder, *prefork([plain_celery.QUEUE], 2)):
        _await_plain()
        plain = [_plain_rate(count // 10) for _ in range(rounds)]
        plain_waits = _plain_waits(200)
    with (
        worker(OURS, folder, *SWEEPS),
        worker(OURS, folder, *prefork(LANES, 2)),
    ):
        _await_drains()
        # The first one is how they learn how many jobs make half a second.
        _rate(count // 2)
        ours = [_rate(count) for _ in range(rounds)]
        waits = _waits(200)
    yield figure(
        "submit_many to done, 2 processes",
        median(ours),
        "jobs/s",
        baseline=median(plain),
        at_least=7,
    )
    yield figure(
        "pick-up p50", median(waits) * 1000, "ms", baseline=median(plain_waits) * 1000, at_most=1
    )
    yield figure(
        "pick-up p95",
        percentile(waits, 95) * 1000,
        "ms",
        baseline=percentile(plain_waits, 95) * 1000,
        at_most=1.5,
    )


def _await_plain() -> None:
    redis = plain_celery.server()
    plain_celery.noop.delay()
    await_true(lambda: plain_celery.is_drained(redis), READY_SECONDS, "plain Celery")


def _plain_rate(count: int) -> float:
    redis = plain_celery.server()
    begun = time.perf_counter()
    for _ in range(count):
        plain_celery.noop.delay()
    await_true(lambda: plain_celery.is_drained(redis), 120, "plain Celery to drain")
    return count / (time.perf_counter() - begun)


def _plain_waits(count: int) -> list[float]:
    redis = plain_celery.server()
    redis.delete(plain_celery.STAMPS)
    for number in range(count):
        _pause()
        plain_celery.stamp.delay(time.monotonic())
        await_true(
            lambda n=number: redis.llen(plain_celery.STAMPS) > n,  # type: ignore[misc]
            10,
            "a task of plain Celery",
        )
    return [float(each) for each in redis.lrange(plain_celery.STAMPS, 0, -1)]


def _await_drains() -> None:
    """Until drains wait for work: the first job has been done."""
    await_true(Worker.objects.filter(state="active").exists, READY_SECONDS, "a worker")
    submit("noop")
    await_true(_nothing_open, READY_SECONDS, "the first job")


def _nothing_open() -> bool:
    jobs = table(Job)
    return not fetch(
        f"SELECT 1 FROM {jobs} WHERE status IN ('ready', 'running', 'scheduled') LIMIT 1"
    )


def _rate(count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count // 1000):
        submit_many([Submission(type="noop")] * 1000)
    await_true(_nothing_open, 120, "the jobs to be done")
    return count / (time.perf_counter() - begun)


def _waits(count: int) -> list[float]:
    numbers = []
    for _ in range(count):
        _pause()
        numbers.append(submit("stamp", {"at": time.monotonic()}).id)
        await_true(_nothing_open, 10, "a job")
    rows = fetch(
        f"SELECT result FROM {table(Job)} WHERE id IN ({placeholders(len(numbers))})",
        numbers,
    )
    if any(row[0] is None for row in rows):
        raise CommandError("A job of the benchmark failed.")
    return [float(row[0]) for row in rows]


def _pause() -> None:
    time.sleep(random.uniform(0.05, 0.25))


# --- The embedded default -----------------------------------------------------------------------
def embedded_pick_up(folder: Path, *, quick: bool) -> Figure:
    """Idle workers of `make run`: files as broker, SQLite as wake-up."""
    with (
        worker(OURS, folder, *SWEEPS),
        worker(OURS, folder, "--pool", "threads", "-c", "4", "--queues", ",".join(LANES)),
    ):
        _await_drains()
        waits = _waits(30 if quick else 100)
    return figure("pick-up p50, embedded", median(waits) * 1000, "ms", at_most=60)


def embedded_drain(*, quick: bool) -> Figure:
    """One drain in this process, beside batches claimed and completed by plain SQL."""
    count, rounds = (10_000, 3) if quick else (30_000, 5)
    if registry.find("noop") is None:
        registry.handler("noop")(handlers.noop)
    ours, bare = [], []
    for _ in range(rounds):
        submit_many([Submission(type="noop")] * count)
        ours.append(count / backlog.seconds_of(_drain_all))
        submit_many([Submission(type="noop")] * count)
        bare.append(count / backlog.seconds_of(_bare_cycle))
    return figure(
        "drain in process, SQLite", median(ours), "jobs/s", baseline=median(bare), at_least=0.06
    )


def _drain_all() -> None:
    process = Process(Node("benchmark", ["fast"]))
    Drain(process, "fast").run(linger=False)
    process.leave()


def _bare_cycle() -> None:
    """Claim a hundred by one UPDATE, complete them by another, until nothing is ready."""
    jobs = table(Job)
    while True:
        with transaction.atomic():
            rows = fetch(
                f"UPDATE {jobs} SET status = 'running', lease_token = 'x' WHERE id IN (SELECT id "
                f"FROM {jobs} WHERE status = 'ready' AND type = 'noop' AND affinity_host = '' "
                "ORDER BY order_key, id LIMIT 100) RETURNING id"
            )
        if not rows:
            return
        numbers = [row[0] for row in rows]
        execute(
            f"UPDATE {jobs} SET status = 'succeeded' WHERE id IN ({placeholders(len(numbers))})",
            numbers,
        )
