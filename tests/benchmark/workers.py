"""Workers over HTTP: holding and settling beside the same in process, idle ones, heartbeats."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import close_old_connections

from apps.access import services as access
from apps.access.services import find
from apps.common import clock, ids
from apps.common.db import execute, table
from apps.jobs.models import Job, Worker
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services import slices
from apps.jobs.services.outside import ASKS_PER_SECOND, HELD, HoldRequest, hold_for
from apps.jobs.services.settle import settle
from taskplatform.web import APPLICATION
from tests.benchmark import asyncflow, backlog, pools, runner
from tests.benchmark.backlog import BATCH, seconds_of
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median
from tests.benchmark.load import Ask, Clients, fire, good, post
from tests.benchmark.people import settle as let_settle
from tests.benchmark.processes import server
from tests.benchmark.statements import record

HOLD, SETTLE, BEAT = "/api/v1/jobs/hold/", "/api/v1/jobs/settle/", "/api/v1/jobs/heartbeat/"
CLIENTS = 4
IDLE_WORKERS = 200
# A worker that only lost to others is told to come back within this time.
LOST_SECONDS = 0.1


def over_http(run: RunOptions) -> Iterator[Figure]:
    """Batches of a hundred by four clients, and one by one, in turn with the same in process."""
    rounds, count = (3, 2_000) if run.quick else (9, 4_000)
    single = count // 20
    key = _key()
    statements = run.folder / "statements.json"
    statements.write_text(json.dumps(_recorded(key), default=str))
    plain = runner.plain_rate(run)
    _make_slices(key)
    spent: dict[str, list[float]] = {}
    with (
        server(APPLICATION, run.folder) as web,
        server(
            "tests.benchmark.bare:application", run.folder, BENCHMARK_STATEMENTS=str(statements)
        ) as baseline,
    ):
        ways: dict[str, Callable[[], float]] = {
            "in process": partial(_in_process, count),
            "two requests": partial(_by_clients, web, key, count, together=False),
            "one request": partial(_by_clients, web, key, count, together=True),
            "one by one": partial(_by_clients, web, key, single, together=False, batch=1),
            "bare view": partial(_by_bare_views, baseline, single),
        }
        for turn in range(rounds + 1):
            for name, way in ways.items():
                per_job = way()
                # The first round fills caches and connections.
                if turn:
                    spent.setdefault(name, []).append(per_job)
        _empty()
        let_settle()
        empty, trivial = _empty_holds(web, baseline, key, 100 if run.quick else 400)
        idle = _idle_load(web, key, 3 if run.quick else 10)
        beat = _beat_ms(web, key, 5 if run.quick else 30)
    for name, other, least in (
        ("two requests", "in process", 0.6),
        ("one request", "in process", 0.75),
        ("one by one", "bare view", 0.5),
    ):
        yield _beside(f"hold + settle over HTTP, {name}", spent[name], spent[other], least)
    rate = 1 / median(spent["one request"])
    name = "hold + settle over HTTP beside plain Celery"
    yield figure(name, rate, "jobs/s", baseline=plain, at_least=4)
    name = "empty hold beside an empty DRF view"
    yield figure(name, 1 / empty, "requests/s", baseline=1 / trivial, at_least=0.3)
    yield figure(f"{IDLE_WORKERS} idle workers", idle, "% of a core", at_most=10)
    yield figure("heartbeat with 1,000 leases", beat, "ms", at_most=50)


def _beside(name: str, ours: list[float], bare: list[float], least: float) -> Figure:
    value, baseline = 1 / median(ours), 1 / median(bare)
    return figure(name, value, "jobs/s", baseline=baseline, at_least=least)


def _key() -> str:
    scopes = ["hold", "submit"]
    return access.create_client(name="Benchmark", scopes=scopes, actor="benchmark")[1]


def _make_slices(key: str) -> None:
    """The clients have been there for a while, as in a fleet, so each has its slices."""
    now = clock.now()
    for number in range(CLIENTS):
        Worker.objects.create(
            client=key.partition(".")[0],
            name=f"client-{number}",
            kind=Worker.Kind.HTTP,
            types=["noop"],
            started_at=now - timedelta(minutes=1),
            last_heartbeat_at=now,
        )
    slices.follow(now=now)


def _in_process(count: int) -> float:
    backlog.waiting(count, "noop")
    return seconds_of(lambda: backlog.cycle(["noop"])) / count


def _by_clients(port: int, key: str, count: int, *, together: bool, batch: int = BATCH) -> float:
    """Seconds for each job by four clients at once, each with a connection and a name."""
    backlog.waiting(count, "noop")
    work = _together if together else _apart

    def run(ask: Ask, client: int) -> None:
        work(ask, key, f"client-{client}", batch)

    with Clients(port, CLIENTS) as clients:
        seconds = clients.work(run)
    left = Job.objects.exclude(status="succeeded").count()
    if left:
        raise CommandError(f"{left} of {count} jobs were not done.")
    _empty()
    return seconds / count


def _wish(batch: int) -> dict[str, Any]:
    return {"types": ["noop"], "limit": batch, "request_id": f"{ids.next_id()}"}


def _apart(ask: Ask, key: str, worker: str, batch: int) -> None:
    """Hold and settle until nothing is left, each in a request."""
    while jobs := _held(ask, key, worker, batch):
        good(ask(post(SETTLE, {"worker": worker, "outcomes": _ended(jobs)}, key=key)))


def _together(ask: Ask, key: str, worker: str, batch: int) -> None:
    """Settle and hold in one request until nothing is left."""
    while jobs := _held(ask, key, worker, batch):
        while jobs:
            body = {"worker": worker, "outcomes": _ended(jobs), "hold": _wish(batch)}
            jobs = good(ask(post(SETTLE, body, key=key)))["jobs"]


def _held(ask: Ask, key: str, worker: str, batch: int) -> list[dict[str, Any]]:
    """The next jobs; none when nothing is left, and not when others were faster."""
    while True:
        given = good(ask(post(HOLD, {"worker": worker, **_wish(batch)}, key=key)))
        if given["jobs"] or given["retry_after"] > LOST_SECONDS:
            return given["jobs"]
        time.sleep(given["retry_after"])


def _ended(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": job["id"], "lease_token": job["lease_token"], "outcome": "succeeded"} for job in jobs
    ]


# --- one job at a time beside its own statements --------------------------------------------------
def _recorded(key: str) -> dict[str, Any]:
    """The statements of one hold and one settle, without those that happen now and then."""
    caller = Caller(find(key.partition(".")[0]).client_id)

    def hold() -> Job:
        given = hold_for(caller, "recorded", HoldRequest(types=["noop"], limit=1))
        return Job(**dict(zip(HELD, given.rows[0], strict=True)))

    for _ in range(3):
        backlog.waiting(1, "noop")
        held = hold()
        settle(outcomes=[_succeeded(held)], caller=caller)
    [pk] = backlog.waiting(1, "noop")
    jobs = list[Job]()
    holding = record(lambda: jobs.append(hold()))
    settling = record(lambda: settle(outcomes=[_succeeded(jobs[0])], caller=caller))
    names = {pk: "job", jobs[0].lease_token: "token"}
    entries = {
        value: "journal"
        for each in settling
        if each.sql.startswith("INSERT")
        for value in each.parameters
        if isinstance(value, int) and value > pk
    }
    _empty()
    return {
        "hold": [each.naming(names) for each in holding],
        "settle": [each.naming(names | entries) for each in settling],
    }


def _succeeded(job: Job) -> Outcome:
    return Outcome(id=job.pk, token=job.lease_token, end="succeeded")


def _by_bare_views(port: int, count: int) -> float:
    numbers = iter(backlog.waiting(count, "noop"))
    lock = threading.Lock()

    def run(ask: Ask, client: int) -> None:
        while True:
            with lock:
                pk = next(numbers, None)
            if pk is None:
                return
            values = {"job": pk, "token": f"{time.monotonic_ns():032x}"}
            good(ask(post("/hold/", values)))
            good(ask(post("/settle/", values)))

    with Clients(port, CLIENTS) as clients:
        seconds = clients.work(run)
    _empty()
    return seconds / count


# --- workers with nothing to do -------------------------------------------------------------------
def _empty_holds(web: int, baseline: int, key: str, count: int) -> tuple[float, float]:
    """Seconds of an empty hold, and of an answer of an empty view."""
    ours, bare = [], []
    for _ in range(7):
        holds = [post(HOLD, {"worker": f"idle-{n}", "types": ["noop"]}, key=key) for n in range(8)]
        ours.append(fire(web, holds * (count // 8)).seconds)
        bare.append(fire(baseline, [post("/trivial/", {"x": 1})] * count).seconds)
    return median(ours[1:]) / count, median(bare[1:]) / count


def _idle_load(port: int, key: str, seconds: int) -> float:
    """Per cent of a core that the web server uses for idle workers, which ask as they are told."""
    asks = [
        post(HOLD, {"worker": f"idle-{n}", "types": ["noop"]}, key=key) for n in range(IDLE_WORKERS)
    ]
    # Now the process has seen them all.
    for answer in fire(port, asks, connections=1).answers:
        good(answer)
    busy = _cpu_of_children()
    # The servers are not quite still without them.
    time.sleep(seconds)
    still = _cpu_of_children() - busy

    def run(ask: Ask, client: int) -> None:
        begun = time.perf_counter()
        for n in range(seconds * ASKS_PER_SECOND):
            due = begun + n / ASKS_PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            good(ask(asks[n % IDLE_WORKERS]))

    # On a connection of its own: the server closes those that are silent for long.
    with Clients(port, 1) as clients:
        clients.work(run)
    return 100 * (_cpu_of_children() - busy - 2 * still) / seconds


def _cpu_of_children() -> float:
    """The processor seconds of all processes below this one."""
    parents, spent = dict[int, int](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before may hold blanks.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        spent[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own, found = os.getpid(), set[int]()
    for number in parents:
        line, above = [number], parents.get(number)
        while above and above != own:
            line.append(above)
            above = parents.get(above)
        if above == own:
            found.update(line)
    return sum(spent[number] for number in found)


def _beat_ms(port: int, key: str, rounds: int) -> float:
    """Milliseconds of one heartbeat that renews a thousand leases, each hold with ten."""
    backlog.waiting(1_000, "noop")
    leases: list[dict[str, Any]] = []
    spent = []
    with Clients(port, 1) as clients:

        def run(ask: Ask, client: int) -> None:
            while len(leases) < 1_000:
                found = good(ask(post(HOLD, {"worker": "beating", **_wish(10)}, key=key)))
                leases.extend(
                    {"id": job["id"], "lease_token": job["lease_token"]} for job in found["jobs"]
                )
            request = post(BEAT, {"worker": "beating", "leases": leases}, key=key)
            for _ in range(rounds):
                answer = ask(request)
                if not all(lease["ok"] for lease in good(answer)["leases"]):
                    raise CommandError("A lease was not renewed.")
                spent.append(1_000 * answer.seconds)

        clients.work(run)
    _empty()
    return median(spent)


def _empty() -> None:
    execute(f"DELETE FROM {table(Job)}")
    close_old_connections()


PARTS = [
    Part("http", over_http),
    Part("pools", pools.pool),
    Part("asyncflow", asyncflow.beside_rest),
]
