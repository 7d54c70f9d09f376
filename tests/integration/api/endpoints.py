"""Every method of every address, with the scope it needs and a request that succeeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.api.endpoint import BASE, BY_BOTH, BY_EXECUTOR, SHARED, Endpoint
from tests.integration.api.job_endpoints import JOB_ENDPOINTS
from tests.integration.api.schedule_endpoints import SCHEDULE_ENDPOINTS
from tests.integration.api.work_endpoints import OF_WORKERS
from tests.integration.api.world import World

__all__ = ["BASE", "ENDPOINTS", "WRITES", "Endpoint"]

SCHEMA = {"type": "object", "properties": {"shop": {"type": "string"}}}


def _template(**fields: Any) -> Endpoint:
    """Templates belong to no executor: all read them, only keys without a binding change them."""
    if fields["scope"] == "operate":
        return Endpoint(bindings=SHARED, own=(), foreign=403, **fields)
    own = ("uid_alice", "gid_sales", "uid_bob", "gid_other")
    return Endpoint(bindings=SHARED, own=own, foreign=200, **fields)


def _alice(**fields: Any) -> Callable[[World], dict[str, Any]]:
    return lambda world: {"uid": "uid_alice", "number": world.number, **fields}


def _task_path(world: World) -> str:
    return f"once-tasks/{world.task}/"


def _rotation_path(world: World) -> str:
    return f"rotate-tasks/{world.rotation}/"


def _old_task_path(world: World) -> str:
    return f"once-tasks/{world.old_task}/restore/"


def _old_rotation_path(world: World) -> str:
    return f"rotate-tasks/{world.old_rotation}/restore/"


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


def _what_if(
    kind: str, plan: Callable[[World], dict[str, Any]], path: Callable[[World], str]
) -> list[Endpoint]:
    return [
        Endpoint(
            method="POST",
            bindings=BY_EXECUTOR,
            route=f"{kind}-tasks/what-if/",
            scope="operate",
            foreign=400,
            body=lambda world: {**plan(world), **PERIOD},
        ),
        Endpoint(
            method="POST",
            bindings=BY_EXECUTOR,
            route=f"{kind}-tasks/<int:pk>/what-if/",
            scope="operate",
            path=lambda world: f"{path(world)}what-if/",
            body=lambda world: {**plan(world), **PERIOD, "version": 1},
        ),
    ]


ENDPOINTS = [
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="dispatch/",
        scope="pull",
        body=lambda world: {"uid": "uid_alice"},
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="dispatch/extend/",
        scope="pull",
        body=_alice(seconds=60),
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="dispatch/release/",
        scope="pull",
        body=_alice(reason="No key"),
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="callback/",
        scope="pull",
        body=_alice(outcome="succeeded", result={"photos": 3}, message="All there"),
    ),
    Endpoint(method="GET", bindings=BY_EXECUTOR, route="dispatches/", scope="read", foreign=200),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="dispatches/<str:number>/",
        scope="read",
        path=_number_path,
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="dispatches/<str:number>/cancel/",
        scope="operate",
        path=lambda world: f"{_number_path(world)}cancel/",
        body=lambda world: {"reason": "Shop closed"},
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="dispatches/bulk/",
        scope="operate",
        foreign=200,
        body=lambda world: {
            "verb": "cancel",
            "filter": {"state": ["open"], "source": "once", "task": world.task},
            "reason": "Shop closed",
            "dry_run": True,
            "at_most": 5,
            "rate": 100,
            "request_id": "r-1",
        },
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="once-tasks/bulk/",
        scope="operate",
        foreign=200,
        body=lambda world: {
            "verb": "shift",
            "filter": {"ids": [str(world.task)], "status": "active", "mode": "single"},
            "params": {"shift_seconds": 3600},
            "reason": "Shop closed",
            "dry_run": True,
            "at_most": 5,
            "rate": 100,
            "request_id": "r-1",
        },
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/bulk/",
        scope="operate",
        foreign=200,
        body=lambda world: {
            "verb": "copy",
            "filter": {"ids": [str(world.rotation)], "status": "active", "mode": "single"},
            "reason": "Shop closed",
            "dry_run": True,
            "at_most": 5,
            "rate": 100,
            "request_id": "r-1",
        },
    ),
    Endpoint(method="GET", bindings=BY_EXECUTOR, route="executors/", scope="read", foreign=200),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="executors/",
        scope="operate",
        good=201,
        own=("uid_new",),
        foreign=400,
        body=lambda world: {"name": "uid_new", "kind": "user", "title": "New", "enabled": True},
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/",
        scope="read",
        path=_user_path,
    ),
    Endpoint(
        method="PUT",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/",
        scope="operate",
        path=_user_path,
        body=lambda world: {"title": "Alice", "enabled": True, "version": 1},
    ),
    Endpoint(
        method="PATCH",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/",
        scope="operate",
        path=_user_path,
        body=lambda world: {"title": "Alice", "enabled": True, "version": 1},
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/members/",
        scope="read",
        own=("gid_sales",),
        path=_members_path,
    ),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/members/",
        scope="operate",
        own=("gid_sales",),
        path=_members_path,
        body=lambda world: {"add": ["uid_alice"], "remove": ["uid_nobody"]},
        is_batch=True,
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="executors/<str:name>/preview/",
        scope="read",
        path=lambda world: f"{_user_path(world)}preview/",
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="explain/",
        scope="read",
        path=lambda world: f"explain/?executor=uid_alice&source=once&task={world.task}",
    ),
    Endpoint(
        method="GET",
        bindings=BY_BOTH,
        route="reports/summary/",
        scope="read",
        path=lambda world: "reports/summary/?source=dispatch&by=executor",
        foreign=200,
    ),
    _template(method="GET", route="templates/", scope="read"),
    _template(
        method="POST",
        route="templates/",
        scope="operate",
        good=201,
        body=lambda world: {"name": "stock-count", "schema": SCHEMA},
    ),
    _template(method="GET", route="templates/<path:name>/", scope="read", path=_template_path),
    _template(
        method="PUT",
        route="templates/<path:name>/",
        scope="operate",
        path=_template_path,
        body=lambda world: {"schema": SCHEMA},
    ),
    Endpoint(method="GET", bindings=BY_EXECUTOR, route="once-tasks/", scope="read", foreign=200),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="once-tasks/",
        scope="operate",
        good=201,
        foreign=400,
        body=_plan,
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="once-tasks/<int:pk>/",
        scope="read",
        path=_task_path,
    ),
    Endpoint(
        method="PUT",
        bindings=BY_EXECUTOR,
        route="once-tasks/<int:pk>/",
        scope="operate",
        path=_task_path,
        body=lambda world: {**_plan(world), "version": 1},
    ),
    Endpoint(
        method="PATCH",
        bindings=BY_EXECUTOR,
        route="once-tasks/<int:pk>/",
        scope="operate",
        path=_task_path,
        body=lambda world: {**_plan(world), "version": 1},
    ),
    Endpoint(
        method="DELETE",
        bindings=BY_EXECUTOR,
        route="once-tasks/<int:pk>/",
        scope="operate",
        good=204,
        path=_task_path,
    ),
    *_what_if("once", _plan, _task_path),
    Endpoint(
        method="GET", bindings=BY_EXECUTOR, route="archived-tasks/", scope="read", foreign=200
    ),
    *(
        Endpoint(
            method="POST",
            bindings=BY_EXECUTOR,
            route=f"{kind}-tasks/<int:pk>/restore/",
            scope="operate",
            path=path,
            body=lambda world: {"reason": "The shop asks again"},
        )
        for kind, path in (("once", _old_task_path), ("rotate", _old_rotation_path))
    ),
    *_what_if("rotate", _rotate, _rotation_path),
    Endpoint(method="GET", bindings=BY_EXECUTOR, route="rotate-tasks/", scope="read", foreign=200),
    Endpoint(
        method="POST",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/",
        scope="operate",
        good=201,
        foreign=400,
        body=_rotate,
    ),
    Endpoint(
        method="GET",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/<int:pk>/",
        scope="read",
        path=_rotation_path,
    ),
    Endpoint(
        method="PUT",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/<int:pk>/",
        scope="operate",
        path=_rotation_path,
        body=lambda world: {**_rotate(world), "version": 1},
    ),
    Endpoint(
        method="PATCH",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/<int:pk>/",
        scope="operate",
        path=_rotation_path,
        body=lambda world: {**_rotate(world), "version": 1},
    ),
    Endpoint(
        method="DELETE",
        bindings=BY_EXECUTOR,
        route="rotate-tasks/<int:pk>/",
        scope="operate",
        good=204,
        path=_rotation_path,
    ),
    *JOB_ENDPOINTS,
    *OF_WORKERS,
    *SCHEDULE_ENDPOINTS,
]
WRITES = [endpoint for endpoint in ENDPOINTS if endpoint.body is not None]
