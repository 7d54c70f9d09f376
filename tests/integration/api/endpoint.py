"""One method of one address, as the tests over all of them know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.integration.api.contract import ContractClient
from tests.integration.api.world import World

BASE = "/api/v1/"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """`good` answers a key without binding or bound to one of `own`; `foreign` any other.

    Of jobs, `good` answers a key bound to the job types in `types`, `foreign_type` one to others.
    """

    method: str
    route: str
    scope: str
    good: int = 200
    foreign: int = 404
    own: tuple[str, ...] = ("uid_alice", "gid_sales")
    path: Callable[[World], str] = lambda world: ""
    body: Callable[[World], dict[str, Any]] | None = None
    is_batch: bool = False
    types: tuple[str, ...] = ()
    foreign_type: int = 0

    def __str__(self) -> str:
        return f"{self.method} {self.route}"

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and self.route.count("/") == 1

    def address(self, world: World) -> str:
        return BASE + (self.path(world) or self.route)

    def request(self, api: ContractClient, world: World, **options: Any) -> Any:
        """Send the request that succeeds; options replace what they name, such as `raw`."""
        body = self.body(world) if self.body else None
        return api.request(
            self.method,
            self.address(world),
            **{"body": body, **options},  # type: ignore[arg-type]
        )
