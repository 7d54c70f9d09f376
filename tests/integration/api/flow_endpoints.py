"""The rows of flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.api.endpoint import BY_BOTH, Endpoint
from tests.integration.api.world import World

DEFINITION = {
    "params": {"type": "object", "properties": {"to": {"type": "string"}}},
    "steps": [
        {"name": "gate", "kind": "wait"},
        {"name": "send", "kind": "jobs", "type": "mail", "each": [1, 2], "needs": ["gate"]},
    ],
}


def _run(action: str = "") -> Callable[[World], str]:
    return lambda world: f"flow-runs/{world.flow_run}/{action}"


def _of_flows(*what: str, **fields: Any) -> Endpoint:
    """Those of jobs of type mail; their jobs are nobody's, so a key that is bound to executors
    alone reaches none."""
    return Endpoint(
        *what,
        **{
            **{"bindings": BY_BOTH, "types": ("mail",), "own": ()},
            **{"foreign": 404, "foreign_type": 404, **fields},
        },
    )


def _version(world: World) -> dict[str, Any]:
    return {"title": "At night", "definition": DEFINITION}


def _act(action: str, route: str = "", **body: Any) -> Endpoint:
    return _of_flows(
        "POST",
        f"flow-runs/<str:number>/{route or action}/",
        "operate",
        path=_run(f"{action}/"),
        body=lambda world: {"reason": "The customer called", **body},
    )


_STEP = "steps/<str:step>"
FLOW_ENDPOINTS = [
    _of_flows("GET", "flows/", "read", foreign=200, foreign_type=200),
    _of_flows(
        "POST",
        "flows/",
        "operate",
        good=201,
        foreign=400,
        foreign_type=400,
        body=lambda world: {"name": "morning", **_version(world)},
    ),
    _of_flows(
        "POST",
        "flows/check/",
        "operate",
        foreign=400,
        foreign_type=400,
        body=lambda world: {"definition": DEFINITION},
    ),
    _of_flows("GET", "flows/<str:name>/", "read", path=lambda world: "flows/night/"),
    _of_flows(
        "PUT", "flows/<str:name>/", "operate", path=lambda world: "flows/night/", body=_version
    ),
    _of_flows(
        "DELETE", "flows/<str:name>/", "operate", good=204, path=lambda world: "flows/night/"
    ),
    _of_flows("GET", "flow-runs/", "read", foreign=200, foreign_type=200),
    _of_flows(
        "POST",
        "flow-runs/",
        "submit",
        good=201,
        foreign=400,
        foreign_type=400,
        body=lambda world: {
            **{"flow": "night", "params": {"to": "alice@example.com"}, "key": "k-1"},
            **{"trace_id": "t-1", "request_id": "r-1"},
        },
    ),
    _of_flows("GET", "flow-runs/<str:number>/", "read", path=_run()),
    _of_flows(
        "GET",
        f"flow-runs/<str:number>/{_STEP}/results/",
        "read",
        path=_run("steps/send/results/"),
    ),
    _act("pause"),
    _act("resume"),
    _act("cancel", force=True),
    _of_flows(
        "POST",
        "flow-runs/<str:number>/retry/",
        "operate",
        path=lambda world: f"flow-runs/{world.failed_flow_run}/retry/",
        body=lambda world: {"reason": "The customer called"},
    ),
    _act("steps/gate/skip", f"{_STEP}/skip", result={"ok": True}),
    _act("steps/gate/finish", f"{_STEP}/finish", result={"ok": True}),
]
