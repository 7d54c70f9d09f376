"""Helpers of tests that fill pools and act as their workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.jobs.models import Job, JobType
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import pool as pools
from apps.jobs.services.pool_bucket import Item
from apps.jobs.services.pool_rebuild import Rebuilt, rebuild
from apps.jobs.services.type_snapshots import type_snapshots
from tests.jobs import job_type

NAME = "keys"
OURS = Caller("ci_ours")
THEIRS = Caller("ci_theirs")
OPERATOR = "admin:olga"
FIVE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def pool(items: Mapping[str, float] | None = None, **settings: Any) -> JobType:
    """A pool with these keys and scores."""
    made = job_type(NAME, pool=True, **settings)
    if items:
        fill(items)
    return made


def snapshot() -> TypeSnapshot:
    return type_snapshots([NAME])[NAME]


def fill(items: Mapping[str, float], **how: Any) -> Rebuilt:
    return rebuild(pool=snapshot(), items=items, **{"actor": OPERATOR, **how})


def items_of(worker: str = "pi-1", limit: int = 20, caller: Caller = OURS) -> list[Item]:
    return pools.assign(pool=snapshot(), caller=caller, worker=worker, limit=limit)


def assign(worker: str = "pi-1", limit: int = 20, caller: Caller = OURS) -> list[str]:
    """The keys of the worker's bucket after it."""
    return [item.key for item in items_of(worker, limit, caller)]


def report(
    end: str, *keys: str, worker: str = "pi-1", caller: Caller = OURS, **details: str
) -> tuple[list[str], dict[str, str]]:
    """The keys that ended so, and the codes of the refused ones."""
    return tuple(  # type: ignore[return-value]
        pools.report(pool=snapshot(), caller=caller, worker=worker, keys=keys, end=end, **details)
    )


def check(*keys: str, worker: str = "pi-1", caller: Caller = OURS) -> tuple[list[str], list[str]]:
    """The keys that are held and not named, and those that are named and not held."""
    return tuple(  # type: ignore[return-value]
        pools.check(pool=snapshot(), caller=caller, worker=worker, keys=keys)
    )


def waiting() -> dict[str, float]:
    """The keys that wait, with their scores, lowest first."""
    rows = Job.objects.filter(type=NAME, status__in=("ready", "scheduled"))
    return {row.key: row.order_key / 1000 for row in rows.order_by("order_key", "pk")}


def held() -> dict[str, str]:
    """The keys that are held, each with its worker."""
    rows = Job.objects.filter(type=NAME, status="running").order_by("key")
    return dict(rows.values_list("key", "worker"))


def job_of(key: str) -> Job:
    """The newest job of the key."""
    return Job.objects.filter(type=NAME, key=key).latest("pk")
