"""A type that workers of asyncflow have registered, and callers of every dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.frozen import FrozenClock
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import job_type


@pytest.fixture
def lark(frozen_clock: FrozenClock, db: None) -> Any:
    return job_type("lark", handler="", stages=["*"], retry_delay_seconds=10.0)


@pytest.fixture(params=["g2", "g1", "java", "api"])
def calls(request: pytest.FixtureRequest, lark: Any, make_key: Callable[..., str]) -> Calls:
    """A caller of each dialect in turn, with a key of every scope."""
    return Calls(request.param, make_key())


@pytest.fixture
def go(lark: Any, make_key: Callable[..., str]) -> Calls:
    return Calls("g2", make_key())
