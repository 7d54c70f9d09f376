"""The methods of the addresses for workers on other machines."""

from __future__ import annotations

from typing import Any

from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoint import BASE, BY_TYPE, SHARED, Endpoint
from tests.integration.api.world import World

NAME = "pi-1"


def _of_workers(route: str, **fields: Any) -> Endpoint:
    """Keys bound to executors do not work on jobs, which may be anybody's."""
    return Endpoint(
        **{
            **{"method": "POST", "route": route, "scope": "hold", "bindings": BY_TYPE},
            **{"own": (), "foreign": 403, "is_batch": True},
            **fields,
        }
    )


def _of_jobs(action: str, *, foreign_type: int = 200, **fields: Any) -> Endpoint:
    return _of_workers(f"jobs/{action}/", types=("mail",), foreign_type=foreign_type, **fields)


def _register(api: ContractClient, world: World) -> None:
    api.request("POST", f"{BASE}workers/register/", {"name": NAME})


# Both are reported of a job that another worker holds: each is answered with what became of it.
OF_JOBS = [
    _of_jobs(
        "hold",
        foreign_type=404,
        body=lambda world: {
            "worker": NAME,
            "host": "host-c",
            "types": ["mail"],
            "limit": 2,
            "lease_seconds": 60,
            "request_id": "request-1",
        },
    ),
    _of_jobs(
        "settle",
        body=lambda world: {
            "worker": NAME,
            "outcomes": [
                {
                    "id": str(world.running_job),
                    "lease_token": "a-token",
                    "outcome": "succeeded",
                    "memo": "Sent",
                    "result": {"sent": True},
                }
            ],
        },
    ),
    _of_jobs(
        "heartbeat",
        body=lambda world: {
            "worker": NAME,
            "leases": [
                {
                    "id": str(world.running_job),
                    "lease_token": "a-token",
                    "checkpoint": {"page": 2},
                    "sequence": 1,
                    "progress": 40,
                    "lease_seconds": 60,
                }
            ],
        },
    ),
]
OF_WORKERS = [
    Endpoint("GET", "workers/", "read", bindings=SHARED, own=(), foreign=200),
    _of_workers(
        "workers/register/",
        body=lambda world: {
            "name": NAME,
            "host": "host-c",
            "types": ["mail"],
            "capacity": 4,
            "version": "1.2",
        },
    ),
    _of_workers(
        "workers/heartbeat/",
        before=_register,
        body=lambda world: {"name": NAME, "running": 1, "stopping": False},
    ),
    _of_workers("workers/leave/", body=lambda world: {"name": NAME}),
]
