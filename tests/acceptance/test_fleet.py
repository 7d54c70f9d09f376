"""A fleet of workers over HTTP with every bad habit, on five types with stages, slices and a pool.

Whatever they do, each answer is a documented one, nothing is lost, and each job ends once.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product

import pytest

from apps.jobs.rules.slices import STEADY_AFTER
from apps.jobs.rules.transitions import FINAL
from tests.acceptance.conftest import SCOPES, make_key
from tests.fleet import JOB_TYPES, POOL, TYPES, FleetWorker, Ledger
from tests.processes import RunningProcess, eventually, free_port
from tests.serving import Web, await_answer
from tests.workers import Workers

FLEET = 8
JOBS = 160
IN_HAND = f"SELECT `key` FROM jobs_job WHERE type = '{POOL}' AND status = 'running'"


@pytest.fixture
def port(start: Callable[..., RunningProcess]) -> Iterator[int]:
    """Of a web server, which logs no failure."""
    port = free_port()
    web = Web(start, port).process
    await_answer(web, port)
    yield port
    assert '"level": "ERROR"' not in web.output, web.output[-5000:]
    assert "Traceback" not in web.output, web.output[-5000:]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def fleet(
    port: int,
    key: str,
    environment: dict[str, str],
    ledger: Ledger,
    request: pytest.FixtureRequest,
) -> list[FleetWorker]:
    """Workers of two keys, with the same names under both, and work for them."""
    keys = [key, make_key(environment, "Other", *SCOPES)]
    seed = request.config.getoption("randomly_seed", None)
    names = [f"pi-{number}" for number in range(FLEET // len(keys))]
    fleet = [
        FleetWorker(port, each, name, ledger, seed=f"{seed} {n}", restless=name == names[-1])
        for n, (each, name) in enumerate(product(keys, names))
    ]
    for name, settings in TYPES.items():
        fleet[0].post("/job-types/", {"name": name, **settings}, 201)
    jobs = [{"type": JOB_TYPES[number % len(JOB_TYPES)]} for number in range(JOBS)]
    fleet[0].submit([{**each, "key": str(number)} for number, each in enumerate(jobs)])
    return fleet


@contextmanager
def at_work(
    fleet: Sequence[FleetWorker], how: Callable[[FleetWorker, threading.Event], None]
) -> Iterator[Callable[[], bool]]:
    """All of them at once; yields what asks whether they still are. What one raises is raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(fleet)) as threads:
        each = [threads.submit(how, worker, stop) for worker in fleet]
        try:
            yield lambda: not any(one.done() for one in each)
        finally:
            stop.set()
    for one in each:
        one.result()


@pytest.mark.mariadb
# From when slices are shared.
@pytest.mark.parametrize("seconds", [3, pytest.param(90, marks=pytest.mark.long)])
def test_bad_habits_of_a_fleet_lose_and_double_nothing(
    fleet: list[FleetWorker],
    ledger: Ledger,
    workers: Workers,
    manage: Callable[..., subprocess.CompletedProcess[str]],
    seconds: int,
) -> None:
    """I26-I31, I35, S0.29: no 5xx, no undocumented answer, no key in two hands, no lost end."""
    with at_work(fleet, FleetWorker.misbehave) as goes_on:
        # The first map has those that have been there for so long; the second one is late.
        time.sleep(STEADY_AFTER.total_seconds())
        workers.sweeps()
        eventually(lambda: sum(each.shares for each in fleet) > 1 or not goes_on())
        until = time.monotonic() + seconds
        while goes_on() and time.monotonic() < until:
            in_hand = Counter(workers.rows(IN_HAND))
            assert not in_hand or max(in_hand.values()) == 1, in_hand
            time.sleep(0.1)
    # Nobody else is handed a key now, so that these are of one moment.
    buckets = Counter(key for worker in fleet for key in worker.bucket())
    assert not buckets or max(buckets.values()) == 1, buckets
    with at_work(fleet, FleetWorker.work_well) as goes_on:
        eventually(lambda: not (goes_on() and workers.open()))

    kept = dict(workers.rows("SELECT CAST(id AS CHAR), status FROM jobs_job"))
    ends = workers.ends()
    audit = manage("audit", "--recent", "1000000")
    assert set(kept.values()) <= set(FINAL)
    assert ledger.submitted - kept.keys() == set()
    assert {number: kept[number] for number in ledger.ended} == ledger.ended
    assert {number: ends[int(number)] for number in kept if ends[int(number)] != 1} == {}
    assert (audit.returncode, audit.stdout[:4]) == (0, "ok: "), audit.stdout
