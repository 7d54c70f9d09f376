"""One method of one address, as the tests over all of them know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.access.rules.clients import Binding
from tests.integration.api.contract import ContractClient
from tests.integration.api.world import World

BASE = "/api/v1/"
BY_EXECUTOR = frozenset({Binding.EXECUTORS})
BY_TYPE = frozenset({Binding.JOB_TYPES})
BY_BOTH = BY_EXECUTOR | BY_TYPE
SHARED: frozenset[Binding] = frozenset()


@dataclass(frozen=True)
class Endpoint:
    """`good` answers a key without binding or bound to one of `own`; `foreign` any other.

    `bindings` are those that narrow what the method shows or changes: every row has to say.
    `good` answers a key bound to the job types in `types`, `foreign_type` one bound to others.
    `before` is what the key does before the request that succeeds.
    """

    method: str
    route: str
    scope: str
    bindings: frozenset[Binding] = field(kw_only=True)
    good: int = 200
    foreign: int = 404
    own: tuple[str, ...] = ("uid_alice", "gid_sales")
    path: Callable[[World], str] = lambda world: ""
    body: Callable[[World], dict[str, Any]] | None = None
    is_batch: bool = False
    types: tuple[str, ...] = ()
    foreign_type: int = 0
    before: Callable[[ContractClient, World], None] = lambda api, world: None

    def __str__(self) -> str:
        return f"{self.method} {self.route}"

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and self.route.count("/") == 1

    def address(self, world: World) -> str:
        return BASE + (self.path(world) or self.route)

    def request(self, api: ContractClient, world: World, **options: Any) -> Any:
        """Send the request that succeeds; options replace what they name, such as `raw`."""
        if not options:
            self.before(api, world)
        body = self.body(world) if self.body else None
        return api.request(
            self.method,
            self.address(world),
            **{"body": body, **options},  # type: ignore[arg-type]
        )
