"""A pool over HTTP: rebuilt as a whole, and taken by the bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.core.management.base import CommandError
from django.db import close_old_connections

from apps.access import services as access
from apps.common.db import execute, table
from apps.common.json.text import BATCH_ITEMS
from apps.jobs.models import Bucket, Job
from taskplatform.demo.terminal import percentile
from taskplatform.web import APPLICATION
from tests.benchmark.backlog import job_type
from tests.benchmark.figures import Figure, RunOptions, figure
from tests.benchmark.load import Ask, Clients, good, post
from tests.benchmark.people import settle as let_settle
from tests.benchmark.processes import server

POOL = "keys"
BUCKET = 20


def pool(run: RunOptions) -> Iterator[Figure]:
    """Rebuilds of all keys in chunks, the first and one that moves each; then bucket by bucket."""
    count, rounds = (10_000, 25) if run.quick else (100_000, 200)
    job_type(POOL, handler="", pool=True)
    _name, key = access.create_client(name="Pools", scopes=["hold", "operate"], actor="benchmark")[
        :2
    ]
    scores = {f"key-{number:06}": float(number) for number in range(count)}
    with server(APPLICATION, run.folder) as web:
        first = _rebuild_seconds(web, key, scores, epoch=1)
        moved = {name: count - score for name, score in scores.items()}
        again = _rebuild_seconds(web, key, moved, epoch=2)
        let_settle()
        waits = _assign_waits(web, key, rounds)
    execute(f"DELETE FROM {table(Bucket)}")
    execute(f"DELETE FROM {table(Job)}")
    close_old_connections()
    # Of a quick run, as long as for all keys.
    whole = 100_000 / count
    yield figure("first rebuild of 100,000 keys", first * whole, "s", at_most=30)
    yield figure("rebuild that moves 100,000 keys", again * whole, "s", at_most=30)
    name = f"assign({BUCKET}) beside {count:,} keys, p50"
    yield figure(name, 1_000 * percentile(waits, 50), "ms", at_most=10)


def _rebuild_seconds(port: int, key: str, scores: dict[str, float], *, epoch: int) -> float:
    items = list(scores.items())
    begun = time.perf_counter()
    with Clients(port, 1) as clients:

        def run(ask: Ask, client: int) -> None:
            for start in range(0, len(items), BATCH_ITEMS):
                body = {
                    "items": dict(items[start : start + BATCH_ITEMS]),
                    "epoch": epoch,
                    "last": start + BATCH_ITEMS >= len(items),
                }
                while good(ask(post(f"/api/v1/pools/{POOL}/rebuild/", body, key=key)))["more"]:
                    body = {"items": {}, "epoch": epoch, "last": True}

        clients.work(run)
    return time.perf_counter() - begun


def _assign_waits(port: int, key: str, rounds: int) -> list[float]:
    """The seconds of each assign of a worker that has done the bucket before."""
    waits: list[float] = []

    def run(ask: Ask, client: int) -> None:
        for _ in range(rounds):
            bucket = {"worker": "worker", "limit": BUCKET}
            answer = ask(post(f"/api/v1/pools/{POOL}/assign/", bucket, key=key))
            keys = [item["key"] for item in good(answer)["items"]]
            if len(keys) != BUCKET:
                raise CommandError(f"A bucket has {len(keys)} keys instead of {BUCKET}.")
            waits.append(answer.seconds)
            done = {"worker": "worker", "keys": keys}
            good(ask(post(f"/api/v1/pools/{POOL}/done/", done, key=key)))

    with Clients(port, 1) as clients:
        clients.work(run)
    return waits
