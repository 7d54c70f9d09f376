"""The REST API as the contract tests see it: every answer is held against OpenAPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.api.world import World, build_world
from tests.remembered import Scene

WORLD = Scene(lambda clock: build_world())


@pytest.fixture
def api(frozen_clock: Any, make_key: Callable[..., str]) -> ContractClient:
    """A client with a key of every scope, at Monday 2026-03-02 09:00 UTC."""
    return ContractClient(make_key())


@pytest.fixture
def api_for(make_key: Callable[..., str]) -> ApiFor:
    """`api_for(scopes=["pull"], executors=["uid_alice"])` is the same with a key of those terms."""
    return lambda **terms: ContractClient(make_key(**terms))


@pytest.fixture
def world(db: None, frozen_clock: FrozenClock) -> World:
    return WORLD.show(frozen_clock)
