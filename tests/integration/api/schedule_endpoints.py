"""The rows of schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.api.endpoint import BY_TYPE, Endpoint
from tests.integration.api.world import World


def _schedule(action: str = "") -> Callable[[World], str]:
    return lambda world: f"schedules/{world.schedule}/{action}"


def _plan(world: World) -> dict[str, Any]:
    return {
        "title": "Send the report",
        "job_type": "mail",
        "context": {"to": "alice@example.com"},
        "priority": 1,
        "max_attempts": 2,
        "rule": {"every_days": 2, "at": "09:30"},
        "time_zone": "Asia/Shanghai",
        "start_at": "2026-03-02T12:00:00Z",
        "end_at": "2027-03-02T12:00:00Z",
        "misfire": "all",
        "misfire_limit": 3,
        "overlap": "skip",
    }


def _of_schedules(*what: str, foreign: int = 404, **fields: Any) -> Endpoint:
    """Their jobs are nobody's, so a key that is bound to executors reaches none."""
    _method, _route, scope = what
    return Endpoint(
        *what,
        bindings=BY_TYPE,
        types=("mail",),
        own=(),
        foreign=403 if scope == "operate" else foreign,
        **{"foreign_type": 404, **fields},
    )


SCHEDULE_ENDPOINTS = [
    _of_schedules("GET", "schedules/", "read", foreign=200, foreign_type=200),
    _of_schedules("POST", "schedules/", "operate", good=201, foreign_type=400, body=_plan),
    _of_schedules("GET", "schedules/<int:pk>/", "read", path=_schedule()),
    _of_schedules(
        "PATCH",
        "schedules/<int:pk>/",
        "operate",
        path=_schedule(),
        body=lambda world: {**_plan(world), "version": 1},
    ),
    _of_schedules("DELETE", "schedules/<int:pk>/", "operate", good=204, path=_schedule()),
    *(
        _of_schedules(
            "POST",
            f"schedules/<int:pk>/{action}/",
            "operate",
            good=201 if action == "run" else 200,
            path=_schedule(f"{action}/"),
            body=lambda world: {"reason": "The customer called"},
        )
        for action in ("pause", "resume", "run")
    ),
    _of_schedules("GET", "schedules/<int:pk>/runs/", "read", path=_schedule("runs/")),
]
