"""Every method of every address, with the scope it needs and a request that succeeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.api.endpoint import BASE, BY_BOTH, BY_EXECUTOR, SHARED, Endpoint
from tests.integration.api.flow_endpoints import FLOW_ENDPOINTS
from tests.integration.api.job_endpoints import JOB_ENDPOINTS
from tests.integration.api.schedule_endpoints import SCHEDULE_ENDPOINTS
from tests.integration.api.work_endpoints import OF_WORKERS
from tests.integration.api.world import World

__all__ = ["BASE", "ENDPOINTS", "WRITES", "Endpoint"]

SCHEMA = {"type": "object", "properties": {"shop": {"type": "string"}}}


def _of(*what: str, **fields: Any) -> Endpoint:
    """What belongs to an executor."""
    return Endpoint(*what, bindings=BY_EXECUTOR, **fields)


def _template(*what: str, **fields: Any) -> Endpoint:
    """Templates belong to no executor: all read them, only keys without a binding change them."""
    _method, _route, scope = what
    if scope == "operate":
        return Endpoint(*what, bindings=SHARED, own=(), foreign=403, **fields)
    own = ("uid_alice", "gid_sales", "uid_bob", "gid_other")
    return Endpoint(*what, bindings=SHARED, own=own, foreign=200, **fields)


def _alice(**fields: Any) -> Callable[[World], dict[str, Any]]:
    return lambda world: {"uid": "uid_alice", "number": world.number, **fields}


def _rotate(world: World) -> dict[str, Any]:
    return {
        **_plan(world),
        "rule": {"every_days": 2, "at": "09:30"},
        "time_zone": "Asia/Shanghai",
        "misfire": "all",
        "misfire_limit": 3,
    }


def _number_path(world: World) -> str:
    return f"dispatches/{world.number}/"


def _user_path(world: World) -> str:
    return "executors/uid_alice/"


def _members_path(world: World) -> str:
    return "executors/gid_sales/members/"


def _template_path(world: World) -> str:
    return "templates/photo-check/"


def _plan(world: World) -> dict[str, Any]:
    return {
        "title": "Check the shelf",
        "executor": "uid_alice",
        "template": "photo-check",
        "params": {"shop": "1"},
        "start_at": "2026-03-02T09:00:00Z",
        "end_at": "2026-03-09T09:00:00Z",
        "mode": "multi",
        "dispatch_times": 2,
        "priority": 1,
        "lease_seconds": 60,
        "on_failure": "retry_same",
        "on_expiry": "keep",
        "max_rounds": 2,
        "status": "active",
    }


PERIOD = {"from": "2026-03-02T09:00:00Z", "to": "2026-03-04T09:00:00Z"}


def _of_tasks(kind: str, plan: Callable[[World], dict[str, Any]], task: str) -> list[Endpoint]:
    """Of once tasks or of rotations; `task` names the one of alice in the world."""
    every, one = f"{kind}-tasks/", f"{kind}-tasks/<int:pk>/"

    def path(world: World) -> str:
        return f"{every}{getattr(world, task)}/"

    def old(world: World) -> str:
        return f"{every}{getattr(world, f'old_{task}')}/restore/"

    def edit(world: World) -> dict[str, Any]:
        return {**plan(world), "version": 1}

    return [
        _of("GET", every, "read", foreign=200),
        _of("POST", every, "operate", good=201, foreign=400, body=plan),
        _of("GET", one, "read", path=path),
        _of("PUT", one, "operate", path=path, body=edit),
        _of("PATCH", one, "operate", path=path, body=edit),
        _of("DELETE", one, "operate", good=204, path=path),
        _of(
            "POST",
            f"{every}what-if/",
            "operate",
            foreign=400,
            body=lambda world: {**plan(world), **PERIOD},
        ),
        _of(
            "POST",
            f"{one}what-if/",
            "operate",
            path=lambda world: f"{path(world)}what-if/",
            body=lambda world: {**edit(world), **PERIOD},
        ),
        _of(
            "POST",
            f"{one}restore/",
            "operate",
            path=old,
            body=lambda world: {"reason": "The shop asks again"},
        ),
    ]


def _bulk(kind: str, verb: str, filter_of: Callable[[World], Any], **params: Any) -> Endpoint:
    return _of(
        "POST",
        f"{kind}/bulk/",
        "operate",
        foreign=200,
        body=lambda world: {
            "verb": verb,
            "filter": filter_of(world),
            "reason": "Shop closed",
            "dry_run": True,
            "at_most": 5,
            "rate": 100,
            "request_id": "r-1",
            **params,
        },
    )


ENDPOINTS = [
    _of("POST", "dispatch/", "pull", body=lambda world: {"uid": "uid_alice"}),
    _of("POST", "dispatch/extend/", "pull", body=_alice(seconds=60)),
    _of("POST", "dispatch/release/", "pull", body=_alice(reason="No key")),
    _of(
        "POST",
        "callback/",
        "pull",
        body=_alice(outcome="succeeded", result={"photos": 3}, message="All there"),
    ),
    _of("GET", "dispatches/", "read", foreign=200),
    _of("GET", "dispatches/<str:number>/", "read", path=_number_path),
    _of(
        "POST",
        "dispatches/<str:number>/cancel/",
        "operate",
        path=lambda world: f"{_number_path(world)}cancel/",
        body=lambda world: {"reason": "Shop closed"},
    ),
    # Its task is addressed to alice alone: test_handing.py gives one to others.
    _of(
        "POST",
        "dispatches/<str:number>/hand-over/",
        "operate",
        path=lambda world: f"{_number_path(world)}hand-over/",
        body=lambda world: {"executor": "uid_alice", "reason": "Ill"},
        good=409,
    ),
    # It is open: test_handing.py asks again for ended ones.
    _of(
        "POST",
        "dispatches/<str:number>/ask-again/",
        "operate",
        path=lambda world: f"{_number_path(world)}ask-again/",
        body=lambda world: {"reason": "Blurred"},
        good=409,
    ),
    _bulk(
        "dispatches",
        "cancel",
        lambda world: {"state": ["open"], "source": "once", "task": world.task},
    ),
    _bulk(
        "once-tasks",
        "shift",
        lambda world: {"ids": [str(world.task)], "status": "active", "mode": "single"},
        params={"shift_seconds": 3600},
    ),
    _bulk(
        "rotate-tasks",
        "copy",
        lambda world: {"ids": [str(world.rotation)], "status": "active", "mode": "single"},
    ),
    _of("GET", "executors/", "read", foreign=200),
    _of(
        "POST",
        "executors/",
        "operate",
        good=201,
        own=("uid_new",),
        foreign=400,
        body=lambda world: {"name": "uid_new", "kind": "user", "title": "New", "enabled": True},
    ),
    _of("GET", "executors/<str:name>/", "read", path=_user_path),
    _of(
        "PUT",
        "executors/<str:name>/",
        "operate",
        path=_user_path,
        body=lambda world: {"title": "Alice", "enabled": True, "version": 1},
    ),
    _of(
        "PATCH",
        "executors/<str:name>/",
        "operate",
        path=_user_path,
        body=lambda world: {"title": "Alice", "enabled": True, "version": 1},
    ),
    _of("GET", "executors/<str:name>/members/", "read", own=("gid_sales",), path=_members_path),
    _of(
        "POST",
        "executors/<str:name>/members/",
        "operate",
        own=("gid_sales",),
        path=_members_path,
        body=lambda world: {"add": ["uid_alice"], "remove": ["uid_nobody"]},
        is_batch=True,
    ),
    _of(
        "GET",
        "executors/<str:name>/preview/",
        "read",
        path=lambda world: f"{_user_path(world)}preview/",
    ),
    _of(
        "GET",
        "explain/",
        "read",
        path=lambda world: f"explain/?executor=uid_alice&source=once&task={world.task}",
    ),
    Endpoint(
        "GET",
        "reports/summary/",
        "read",
        bindings=BY_BOTH,
        path=lambda world: "reports/summary/?source=dispatch&by=executor",
        foreign=200,
    ),
    _template("GET", "templates/", "read"),
    _template(
        "POST",
        "templates/",
        "operate",
        good=201,
        body=lambda world: {"name": "stock-count", "schema": SCHEMA},
    ),
    _template("GET", "templates/<path:name>/", "read", path=_template_path),
    _template(
        "PUT",
        "templates/<path:name>/",
        "operate",
        path=_template_path,
        body=lambda world: {"schema": SCHEMA},
    ),
    *_of_tasks("once", _plan, "task"),
    *_of_tasks("rotate", _rotate, "rotation"),
    _of("GET", "archived-tasks/", "read", foreign=200),
    *JOB_ENDPOINTS,
    *OF_WORKERS,
    *SCHEDULE_ENDPOINTS,
    *FLOW_ENDPOINTS,
]
WRITES = [endpoint for endpoint in ENDPOINTS if endpoint.body is not None]
