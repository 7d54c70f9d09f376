"""A worker of asyncflow beside one over REST: each holds a hundred and reports them one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db import close_old_connections

from apps.access import services as access
from apps.common.db import execute, table
from apps.jobs.models import Job
from taskplatform.web import APPLICATION
from tests.benchmark import backlog
from tests.benchmark.backlog import BATCH
from tests.benchmark.figures import Figure, RunOptions, figure, median
from tests.benchmark.load import Answer, Ask, Clients, good, post
from tests.benchmark.processes import server

HOLD, SETTLE = "/api/v1/jobs/hold/", "/api/v1/jobs/settle/"
THEIR_HOLD = f"/asyncflow/g2/v1/hold_tasks?limit={BATCH}&task_type=noop"
THEIR_SET = "/asyncflow/g2/v1/set_task"


def beside_rest(run: RunOptions) -> Iterator[Figure]:
    """Rounds of both in turn, by one client each on a connection of its own."""
    rounds = 5 if run.quick else 25
    key = access.create_client(name="Benchmark", scopes=["hold"], actor="benchmark")[1]
    spent: dict[str, list[float]] = {"theirs": [], "ours": []}
    with server(APPLICATION, run.folder) as web, Clients(web, 1) as clients:
        for turn in range(rounds + 1):
            for name, way in (("theirs", _theirs), ("ours", _ours)):
                seconds = _timed(clients, way, key)
                # The first round fills caches and connections.
                if turn:
                    spent[name].append(seconds / BATCH)
    rate, rest = 1 / median(spent["theirs"]), 1 / median(spent["ours"])
    name = f"hold {BATCH} and {BATCH} single reports of asyncflow (g2)"
    yield figure(name, rate, "jobs/s", baseline=rest, at_least=0.7)


def _timed(clients: Clients, way: Callable[[Ask, str], None], key: str) -> float:
    backlog.waiting(BATCH, "noop")
    spent = list[float]()

    def work(ask: Ask, client: int) -> None:
        begun = time.perf_counter()
        way(ask, key)
        spent.append(time.perf_counter() - begun)

    clients.work(work)
    left = Job.objects.exclude(status="succeeded").count()
    if left:
        raise CommandError(f"{left} of {BATCH} jobs were not done.")
    execute(f"DELETE FROM {table(Job)}")
    close_old_connections()
    return spent[0]


def _theirs(ask: Ask, key: str) -> None:
    held = {"task_type": "noop", "limit": BATCH}
    for task in _without_code(ask(post(THEIR_HOLD, held, key=key)))["task_list"]:
        _without_code(ask(post(THEIR_SET, {"task_data": {**task, "status": 3}}, key=key)))


def _without_code(answer: Answer) -> Any:
    """What the answer says; its code has to be that of success."""
    found = good(answer)
    if found.pop("code") != 0:
        raise CommandError(f"{found}")
    return found


def _ours(ask: Ask, key: str) -> None:
    wish = {"worker": "beside", "types": ["noop"], "limit": BATCH}
    for job in good(ask(post(HOLD, wish, key=key)))["jobs"]:
        outcome = {"id": job["id"], "lease_token": job["lease_token"], "outcome": "succeeded"}
        body = {"worker": "beside", "outcomes": [outcome]}
        if not good(ask(post(SETTLE, body, key=key)))["results"][0]["ok"]:
            raise CommandError("A job was not settled.")
