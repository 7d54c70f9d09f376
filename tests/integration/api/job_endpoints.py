"""The methods of the addresses of jobs and job types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.api.endpoint import BY_BOTH, BY_TYPE, Endpoint
from tests.integration.api.pool_endpoints import OF_POOLS
from tests.integration.api.work_endpoints import OF_JOBS
from tests.integration.api.world import World

EVERYBODY = ("uid_alice", "gid_sales", "uid_bob", "gid_other")
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
SETTINGS: dict[str, Any] = {
    "title": "Mails",
    "handler": "echo",
    "lane": "slow",
    "stages": ["draw", "send"],
    "params_schema": SCHEMA,
    "weight": 2,
    "batch_limit": 10,
    "lease_seconds": 60,
    "max_processing_seconds": 600,
    "max_attempts": 5,
    "retry_delay_seconds": 1.5,
    "retry_multiplier": 3,
    "retry_max_seconds": 60,
    "retry_jitter": 0.2,
    "expires_after_seconds": 3600,
    "default_priority": 1,
    "max_running": 4,
    "rate_per_minute": 600,
    "limit_by": "context.customer",
    "limit_running": 2,
    "limit_per_minute": 60,
    "limit_burst": 5,
    "origin": "prefer",
    "origin_grace_seconds": 30,
    "allowed_hosts": ["host-a"],
    "unique": "always",
    "pool": False,
    "settle": "each",
    "retention_days": 30,
    "paused": True,
    "pause_reason": "Mail server is down",
    "paused_until": "2026-03-03T09:00:00Z",
    "breaker": {
        "enabled": True,
        "failure_rate": 0.4,
        "window_seconds": 30,
        "min_calls": 10,
        "open_seconds": 20,
    },
}


def _of_jobs(*what: str, **fields: Any) -> Endpoint:
    """Jobs belong to a type and to a user."""
    return Endpoint(*what, bindings=BY_BOTH, types=("mail",), **fields)


def _of_types(*what: str, bound: tuple[str, ...] = ("mail",), **fields: Any) -> Endpoint:
    """Types belong to no executor: all read them, keys bound to executors do not change them."""
    _method, _route, scope = what
    if scope == "operate":
        return Endpoint(*what, bindings=BY_TYPE, types=bound, own=(), foreign=403, **fields)
    return Endpoint(*what, bindings=BY_TYPE, types=bound, own=EVERYBODY, foreign=200, **fields)


def _job(action: str = "", state: str = "waiting") -> Callable[[World], str]:
    return lambda world: f"jobs/{getattr(world, f'{state}_job')}/{action}"


def _reason(**fields: Any) -> Callable[[World], dict[str, Any]]:
    return lambda world: {"reason": "The customer called", **fields}


def _control(action: str, state: str = "waiting", **fields: Any) -> Endpoint:
    return _of_jobs(
        "POST",
        f"jobs/<str:number>/{action}/",
        "operate",
        path=_job(f"{action}/", state),
        body=_reason(**fields),
        foreign_type=404,
    )


def _run(action: str = "", state: str = "acting") -> Callable[[World], str]:
    return lambda world: f"bulk/{getattr(world, f'{state}_run')}/{action}"


def _of_runs(*what: str, **fields: Any) -> Endpoint:
    """Keys find the runs over what they are bound to."""
    return _of_jobs(*what, own=("uid_alice",), foreign_type=404, **fields)


OF_BULK = [
    _of_jobs(
        "POST",
        "jobs/bulk/",
        "operate",
        foreign=200,
        foreign_type=400,
        body=lambda world: {
            "verb": "cancel",
            "filter": {"type": "mail", "status": ["scheduled"], "priority_from": 0},
            "params": {},
            "reason": "The customer called",
            "dry_run": True,
            "at_most": 5,
            "rate": 100,
            "request_id": "r-1",
        },
    ),
    _of_runs("GET", "bulk/<str:number>/", "read", path=_run()),
    _of_runs("GET", "bulk/<str:number>/rows/", "read", path=_run("rows/")),
    _of_runs("POST", "bulk/<str:number>/stop/", "operate", path=_run("stop/"), body=_reason()),
    _of_runs(
        "POST",
        "bulk/<str:number>/continue/",
        "operate",
        path=_run("continue/", "stopped"),
        body=_reason(),
    ),
    _of_runs(
        "POST",
        "undo/<str:act>/",
        "operate",
        path=lambda world: f"undo/bulk:{world.stopped_run}/",
        body=_reason(),
        good=202,
    ),
]


def _type(name: str) -> Callable[[World], str]:
    return lambda world: f"job-types/{name}/"


JOB_ENDPOINTS = [
    *OF_JOBS,
    *OF_POOLS,
    _of_jobs("GET", "jobs/", "read", foreign=200, foreign_type=200),
    _of_jobs(
        "POST",
        "jobs/",
        "submit",
        good=201,
        foreign=400,
        foreign_type=400,
        is_batch=True,
        body=lambda world: {
            "type": "mail",
            "key": "order-4",
            "context": {"to": "alice@example.com"},
            "delay": 60,
            "priority": 1,
            "max_attempts": 2,
            "unique": True,
            "user_id": "uid_alice",
            "route_key": "shop-1",
            "trace_id": "trace-1",
        },
    ),
    _of_jobs("GET", "jobs/<str:number>/", "read", path=_job(), foreign_type=404),
    _of_jobs(
        "PATCH",
        "jobs/<str:number>/",
        "operate",
        path=_job(),
        foreign_type=404,
        body=_reason(
            version=1,
            run_at="2026-03-02T12:00:00Z",
            priority=2,
            max_attempts=4,
            context={"to": "bob@example.com"},
            affinity_host="",
        ),
    ),
    _of_jobs("GET", "jobs/<str:number>/journal/", "read", path=_job("journal/"), foreign_type=404),
    _of_jobs("GET", "jobs/<str:number>/log/", "read", path=_job("log/"), foreign_type=404),
    _control("cancel", "running", force=True),
    _control("retry", "failed"),
    _control("run-now"),
    _control("mark-done"),
    *OF_BULK,
    _of_types("GET", "job-types/", "read", foreign_type=200),
    _of_types(
        "POST",
        "job-types/",
        "operate",
        good=201,
        bound=("fax",),
        foreign_type=400,
        body=lambda world: {"name": "fax", **SETTINGS, "handler": ""},
    ),
    _of_types("GET", "job-types/<path:name>/", "read", path=_type("mail"), foreign_type=404),
    *(
        _of_types(
            method,
            "job-types/<path:name>/",
            "operate",
            path=_type("mail"),
            foreign_type=404,
            body=lambda world: {**SETTINGS, "version": 1},
        )
        for method in ("PUT", "PATCH")
    ),
    _of_types(
        "DELETE",
        "job-types/<path:name>/",
        "operate",
        good=204,
        bound=("unused.type",),
        foreign_type=404,
        path=_type("unused.type"),
    ),
]
