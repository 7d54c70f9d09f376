"""The slices of the shards, which follow from who is alive. Workers read them once a second."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from apps.common.db import fetch, force_index, instant, table
from apps.common.leases import load_position, save_position
from apps.jobs.models import Job, Worker
from apps.jobs.rules.explain import Server
from apps.jobs.rules.slices import (
    STEADY_AFTER,
    Living,
    SliceMap,
    Slices,
    client_and_name,
    member_key,
    next_map,
)
from apps.jobs.rules.transitions import READY
from apps.jobs.services.counts import DueJob
from apps.jobs.services.living import active_workers, server_of
from apps.jobs.services.type_snapshots import all_types

SWEEP = "jobs.slices"
# A map this old costs a few lost races at worst.
MAX_AGE_SECONDS = 1.0
# How many ready jobs of a type are read to find the longest-waiting ones.
MAX_IN_LINE = 1_000
_cached: tuple[float, dict[str, Any], SliceMap] | None = None


def follow(*, now: datetime) -> int:
    """Fit the map to the workers that take jobs now; returns its epoch."""
    current = SliceMap.from_json(load_position(SWEEP))
    following = next_map(current, _living(now), now)
    if following is not current:
        save_position(SWEEP, following.to_json())
        forget_slice_map()
    return following.epoch


def _living(now: datetime) -> dict[str, Living]:
    workers = active_workers(now)
    served = _types_of_servers({server_of(worker) for worker in workers}) if workers else {}
    return {
        member_of(worker): Living(
            types=served[server_of(worker)],
            is_steady=worker.last_heartbeat_at - worker.started_at >= STEADY_AFTER,
        )
        for worker in workers
    }


def _types_of_servers(servers: set[Server]) -> dict[Server, frozenset[str]]:
    """The types that each of these can hold jobs of; most workers are alike.

    Pools have no slices: their lowest score goes first, whoever asks.
    """
    types = [each for each in all_types() if not each.pool]
    return {
        server: frozenset(
            each.name for each in types if server.serves(each) and each.serves(server.host)
        )
        for server in servers
    }


def member_of(worker: Worker) -> str:
    return member_key(worker.client, worker.name)


def slice_map() -> SliceMap:
    """The map, at most a second old; an empty one before the first sweep."""
    global _cached
    cached, now = _cached, time.monotonic()
    if cached is not None and now - cached[0] < MAX_AGE_SECONDS:
        return cached[2]
    saved = load_position(SWEEP)
    same = cached is not None and cached[1] == saved
    found = cached[2] if cached is not None and same else SliceMap.from_json(saved)
    _cached = (now, saved, found)
    return found


def forget_slice_map() -> None:
    """Read the map at the next call."""
    global _cached
    _cached = None


def shards_of(client: str, name: str) -> tuple[int, list[int]]:
    """The epoch, and the shards that this worker prefers in any of its types."""
    known = slice_map()
    return known.epoch, known.shards_of(member_key(client, name))


def preferred_by(job: Job) -> str:
    """The worker that prefers a ready job; "" where no worker or only one could."""
    if job.status != READY:
        return ""
    slices = slice_map().slices_of(job.type)
    return client_and_name(slices.owner_of(job.shard))[1] if len(slices.owners) > 1 else ""


def oldest_due(type_: str, slices: Slices) -> dict[str, DueJob]:
    """The longest-waiting one of the first ready jobs in line, by the worker that prefers it."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    rows = fetch(
        f"SELECT id, shard, run_at FROM {jobs} WHERE status = '{READY}' AND type = %s "
        f"ORDER BY affinity_host, order_key, id LIMIT {MAX_IN_LINE}",
        [type_],
    )
    found: dict[str, DueJob] = {}
    for number, shard, run_at in rows:
        job, owner = DueJob(number, type_, instant(run_at)), slices.owner_of(shard)
        if owner not in found or job.since < found[owner].since:
            found[owner] = job
    return found
