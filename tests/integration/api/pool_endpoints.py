"""The methods of the addresses of pools."""

from __future__ import annotations

from typing import Any

from tests.integration.api.endpoint import BY_TYPE, Endpoint

NAME = "pi-1"
EVERYBODY = ("uid_alice", "gid_sales", "uid_bob", "gid_other")


def _of_pools(action: str = "", **fields: Any) -> Endpoint:
    """Pools belong to no executor; keys bound to executors may see them and do no more."""
    return Endpoint(
        **{
            **{"method": "POST", "route": f"pools/<str:name>/{action}", "scope": "hold"},
            **{"bindings": BY_TYPE, "types": ("points",), "foreign_type": 404},
            **{"own": (), "foreign": 403, "is_batch": True},
            **{"path": lambda world: f"pools/points/{action}"},
            **fields,
        }
    )


def _of_keys(action: str, **fields: Any) -> Endpoint:
    return _of_pools(
        f"{action}/", body=lambda world: {"worker": NAME, "keys": ["a", "b"], **fields}
    )


OF_POOLS = [
    _of_pools(method="GET", scope="read", own=EVERYBODY, foreign=200, is_batch=False),
    _of_pools("assign/", body=lambda world: {"worker": NAME, "limit": 5, "host": "host-c"}),
    _of_keys("check"),
    _of_keys("done"),
    _of_keys("fail", error="No route", retry="never"),
    _of_keys("release"),
    _of_pools(
        "rebuild/",
        scope="operate",
        body=lambda world: {
            "items": {"a": 1, "b": 2.5},
            "contexts": {"a": {"shop": 7}},
            "epoch": 3,
            "last": True,
        },
    ),
]
