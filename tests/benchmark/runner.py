"""The runner as a whole: from submit to done, and how soon an idle worker starts."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db import connection, transaction

from apps.access import services as access
from apps.common.db import execute, fetch, placeholders, table
from apps.jobs.handlers import registry
from apps.jobs.models import InboxRow, Job, JobType, Worker
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Node, Process
from apps.jobs.services.submit import Submission, submit, submit_many
from taskplatform.demo.terminal import percentile
from taskplatform.web import APPLICATION
from tests.benchmark import backlog, handlers, plain_celery
from tests.benchmark.figures import Figure, RunOptions, figure, median
from tests.benchmark.load import Clients, post
from tests.benchmark.processes import (
    PLAIN_CELERY,
    PLATFORM,
    START_SECONDS,
    await_true,
    prefork,
    server,
    worker,
)

SWEEPS = ["--pool", "threads", "-c", "2", "--queues", "sweeps", "--beat"]
LANES = ("fast", "slow")
BLOCK = 1000


# --- Beside plain Celery --------------------------------------------------------------------------
def beside_celery(run: RunOptions) -> Iterator[Figure]:
    """Two forked processes of ours and two of plain Celery, on the same Redis, in turn."""
    count, rounds = (20_000, 3) if run.quick else (40_000, 5)
    with worker(PLAIN_CELERY, run.folder, *prefork(plain_celery.QUEUE)):
        _await_plain()
        plain = median([_plain_rate(count // 10) for _ in range(rounds)])
        plain_waits = _plain_waits(200)
    jobs = [Submission(type="noop")] * count
    with (
        worker(PLATFORM, run.folder, *SWEEPS),
        worker(PLATFORM, run.folder, *prefork(*LANES)),
    ):
        _await_drains()
        # In the first round the workers adapt the number of jobs that they hold at once.
        _rate(jobs[: count // 2])
        ours = median([_rate(jobs) for _ in range(rounds)])
        waits = _waits(200)
        with server(APPLICATION, run.folder) as port:
            over_http = median([_rate_over_http(port, count) for _ in range(rounds)])
    name = "submit_many to done, 2 processes"
    yield figure(name, ours, "jobs/s", baseline=plain, at_least=10)
    name = "submitted over the REST API to done"
    yield figure(name, over_http, "jobs/s", baseline=plain, at_least=10)
    for percent, most in ((50, 1.0), (95, 1.2)):
        yield figure(
            f"pick-up p{percent}",
            percentile(waits, percent) * 1000,
            "ms",
            baseline=percentile(plain_waits, percent) * 1000,
            at_most=most,
        )


def plain_rate(run: RunOptions) -> float:
    """Tasks a second of two forked processes of plain Celery."""
    with worker(PLAIN_CELERY, run.folder, *prefork(plain_celery.QUEUE)):
        _await_plain()
        return median([_plain_rate(2_000) for _ in range(3)])


def _await_plain() -> None:
    redis = plain_celery.server()
    plain_celery.noop.delay()
    await_true(lambda: plain_celery.is_drained(redis), START_SECONDS, "plain Celery")


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

    def has_ended(number: int) -> bool:
        return int(redis.llen(plain_celery.STAMPS)) > number

    for number in range(count):
        _pause()
        plain_celery.stamp.delay(time.monotonic())
        await_true(partial(has_ended, number), 10, "a task of plain Celery")
    return [float(each) for each in redis.lrange(plain_celery.STAMPS, 0, -1)]


def _await_drains() -> None:
    """Return when workers wait for jobs: the first job has been done."""
    await_true(Worker.objects.filter(state="active").exists, START_SECONDS, "a worker")
    submit("noop")
    await_true(_nothing_open, START_SECONDS, "the first job")


def _nothing_open() -> bool:
    jobs = table(Job)
    return not fetch(
        f"SELECT 1 FROM {jobs} WHERE status IN ('ready', 'running', 'scheduled') LIMIT 1"
    )


def _rate(jobs: list[Submission]) -> float:
    begun = time.perf_counter()
    for start in range(0, len(jobs), BLOCK):
        submit_many(jobs[start : start + BLOCK])
    await_true(_nothing_open, 300, "the jobs to be done")
    return len(jobs) / (time.perf_counter() - begun)


def _rate_over_http(port: int, count: int) -> float:
    _, key = access.create_client(name="Benchmark", scopes=["submit"], actor="benchmark")
    request = post("/api/v1/jobs/", {"jobs": [{"type": "noop"}] * BLOCK}, key=key)
    with Clients(port, 2) as clients:
        begun = time.perf_counter()
        answers = clients.fire([request] * (count // BLOCK)).answers
    if any(answer.status != 201 for answer in answers):
        raise CommandError(f"Jobs were refused: {answers[0].status} {answers[0].body[:300]!r}")
    await_true(_nothing_open, 300, "the jobs to be done")
    return count / (time.perf_counter() - begun)


def _waits(count: int) -> list[float]:
    numbers = []
    for _ in range(count):
        _pause()
        numbers.append(submit("stamp", {"at": time.monotonic()}).id)
        await_true(_nothing_open, 10, "a job")
    rows = fetch(
        f"SELECT result FROM {table(Job)} WHERE id IN ({placeholders(len(numbers))})", numbers
    )
    if any(row[0] is None for row in rows):
        raise CommandError("A job of the benchmark failed.")
    return [float(row[0]) for row in rows]


def _pause() -> None:
    time.sleep(random.uniform(0.05, 0.25))


# --- The same jobs under one setting --------------------------------------------------------------
class OneSetting(NamedTuple):
    """One setting of the type, or of the jobs by their number, and the least ratio to plain Celery
    or to plain jobs."""

    name: str
    of_type: dict[str, Any] = {}
    of_job: Callable[[int], dict[str, Any]] = lambda number: {}
    types: int = 1
    of_celery: float = 1.0
    of_plain: float = 0.0


SETTINGS = (
    OneSetting("max_attempts 1", {"max_attempts": 1}, of_plain=0.6),
    OneSetting("batch_limit 1", {"batch_limit": 1}, of_celery=0.5),
    OneSetting("max_running 2", {"max_running": 2}, of_celery=0.5),
    OneSetting("settle each", {"settle": JobType.Settle.EACH}),
    OneSetting("200 types", types=200),
    OneSetting("unique", of_job=lambda n: {"key": f"unique-{n}", "unique": True}),
    OneSetting("10 priorities", of_job=lambda n: {"priority": n % 10}),
    OneSetting("2 stages", {"stages": ["first", "second"]}),
    OneSetting("rate_per_minute 1,000,000", {"rate_per_minute": 1_000_000}),
    OneSetting("breaker", {"breaker_enabled": True}),
    OneSetting("expiry", {"expires_after_seconds": 3600}),
    OneSetting("origin", {"origin": JobType.Origin.PREFER}),
)


def under_one_setting(run: RunOptions) -> Iterator[Figure]:
    """Jobs under one setting, beside the same jobs without it and beside plain Celery."""
    count = 2_000 if run.quick else 10_000
    with worker(PLAIN_CELERY, run.folder, *prefork(plain_celery.QUEUE)):
        _await_plain()
        celery = median([_plain_rate(count // 2) for _ in range(3)])
    for at, setting in enumerate(SETTINGS):
        for number in range(setting.types):
            backlog.job_type(f"setting-{at}-{number}", **{"batch_limit": BLOCK, **setting.of_type})
    with (
        worker(PLATFORM, run.folder, *SWEEPS),
        worker(PLATFORM, run.folder, *prefork(*LANES)),
    ):
        _await_drains()
        plain = [Submission(type="noop")] * count
        _rate(plain)
        plain_rate = median([_rate(plain) for _ in range(3)])
        for at, setting in enumerate(SETTINGS):
            run.log(setting.name)
            jobs = [
                Submission(type=f"setting-{at}-{n % setting.types}", **setting.of_job(n))
                for n in range(count)
            ]
            rate = _rate(jobs)
            name = f"jobs under one setting: {setting.name}"
            baseline, least = celery, setting.of_celery
            if setting.of_plain:
                name, baseline, least = f"{name} (of plain jobs)", plain_rate, setting.of_plain
            yield figure(name, rate, "jobs/s", baseline=baseline, at_least=least)


# --- What handlers may do beside their work -------------------------------------------------------
def beside_plain(run: RunOptions) -> Iterator[Figure]:
    """Jobs that log ten lines, or submit one follow-up each, in turn with plain ones."""
    count, rounds = (5_000, 3) if run.quick else (20_000, 5)
    ways = {
        "plain": [Submission(type="noop")] * count,
        "ten lines logged each": [Submission(type="ten-lines")] * count,
        # As many jobs in all.
        "one follow-up each": [Submission(type="leading")] * (count // 2),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    with (
        worker(PLATFORM, run.folder, *SWEEPS),
        worker(PLATFORM, run.folder, *prefork(*LANES)),
    ):
        _await_drains()
        for turn in range(rounds + 1):
            for name, jobs in ways.items():
                seconds = len(jobs) / _rate(jobs)
                # In the first round the workers adapt the number of jobs that they hold at once.
                if turn:
                    spent[name].append(seconds)
    plain = count / median(spent.pop("plain"))
    for (name, seconds), least in zip(spent.items(), (0.8, 0.6), strict=True):
        rate = count / median(seconds)
        yield figure(f"jobs, {name}", rate, "jobs/s", baseline=plain, at_least=least)


# --- A submission that may be repeated ------------------------------------------------------------
def with_request_id(run: RunOptions) -> Iterator[Figure]:
    """Jobs submitted over HTTP with a `request_id`, in turn with the same without."""
    rounds = 5 if run.quick else 15
    _, key = access.create_client(name="Repeats", scopes=["submit"], actor="benchmark")
    sizes = {"one by one": (200, {"type": "noop"}), "by the thousand": (5, _BLOCK)}
    with server(APPLICATION, run.folder) as port, Clients(port, 2) as clients:

        def seconds(calls: int, body: dict[str, Any], *, named: bool) -> float:
            asked = [
                post("/api/v1/jobs/", {**body, **_named(named)}, key=key) for _ in range(calls)
            ]
            begun = time.perf_counter()
            answers = clients.fire(asked).answers
            if any(answer.status != 201 for answer in answers):
                raise CommandError(f"Jobs were refused: {answers[0].body[:300]!r}")
            return time.perf_counter() - begun

        for name, (calls, body) in sizes.items():
            spent: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(rounds + 1):
                for named, times in spent.items():
                    took = seconds(calls, body, named=named)
                    # The first round fills caches and connections.
                    if turn:
                        times.append(took)
            without, ours = (calls / median(spent[named]) for named in (False, True))
            yield figure(
                f"submitted with a request_id, {name}",
                ours,
                "calls/s",
                baseline=without,
                at_least=0.85,
            )


_BLOCK: dict[str, Any] = {"jobs": [{"type": "noop"}] * BLOCK}


def _named(is_named: bool) -> dict[str, str]:
    return {"request_id": secrets.token_hex(16)} if is_named else {}


# --- A row that another program writes ------------------------------------------------------------
def inbox_pick_up(run: RunOptions) -> Iterator[Figure]:
    """From the commit of a row of the inbox until its job is there and ready; nobody runs it."""
    with worker(PLATFORM, run.folder, *SWEEPS):
        _wait_of_row("first", START_SECONDS)
        waits = [_wait_of_row(f"row-{n}", 10) for n in range(20 if run.quick else 200)]
    yield figure("inbox: commit to ready, p95", percentile(waits, 95), "s", at_most=1.5)


def _wait_of_row(key: str, seconds: float) -> float:
    # Not in step with the sweep.
    time.sleep(random.uniform(0.05, 1.05))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table(InboxRow)} (type, job_key) VALUES (%s, %s)", ["noop", key]
        )
    begun = time.perf_counter()
    ready = Job.objects.filter(type="noop", key=key, status="ready")
    await_true(ready.exists, seconds, "the job of a row of the inbox")
    return time.perf_counter() - begun


# --- The embedded default -------------------------------------------------------------------------
def embedded_pick_up(run: RunOptions) -> Iterator[Figure]:
    """Idle workers of `make run`: files as broker, SQLite as wake-up."""
    with (
        worker(PLATFORM, run.folder, *SWEEPS),
        worker(PLATFORM, run.folder, "--pool", "threads", "-c", "4", "--queues", ",".join(LANES)),
    ):
        _await_drains()
        waits = _waits(30 if run.quick else 100)
    yield figure("pick-up p50, embedded", median(waits) * 1000, "ms", at_most=20)


def embedded_drain(run: RunOptions) -> Iterator[Figure]:
    """One drain in this process, beside batches claimed and completed by plain SQL."""
    count, rounds = (3_000, 3) if run.quick else (30_000, 5)
    if registry.find("noop") is None:
        registry.handler("noop")(handlers.noop)
    jobs = [Submission(type="noop")] * count
    ours, bare = [], []
    for _ in range(rounds):
        submit_many(jobs)
        ours.append(count / backlog.seconds_of(_drain_all))
        submit_many(jobs)
        bare.append(count / backlog.seconds_of(_bare_cycle))
    yield figure(
        "drain in process, SQLite", median(ours), "jobs/s", baseline=median(bare), at_least=0.1
    )


def _drain_all() -> None:
    process = Process(Node("benchmark", ["fast"]))
    Drain(process, "fast").run(wait=False)
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
