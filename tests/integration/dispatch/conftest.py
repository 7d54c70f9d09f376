"""What tests of dispatch share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from apps.dispatch.models import Executor, OperatorScope
from tests import callback, factories
from tests.caches import TwoProcesses


@pytest.fixture
def processes() -> Iterator[TwoProcesses]:
    """Two that share the database, and nothing else."""
    both = TwoProcesses()
    yield both
    both.end()


@pytest.fixture
def alice(db: None, frozen_clock: Any) -> Executor:
    """The clock stands at Monday 2026-03-02 09:00 UTC."""
    return factories.user()


@pytest.fixture
def limited(role_user: Any, role_client: Any) -> Callable[..., Client]:
    """`limited(group)` is the client of an operator who sees this executor only, or these."""

    def limited(*executors: Executor) -> Client:
        for executor in executors:
            OperatorScope.objects.create(operator=role_user("operator"), executor=executor)
        return role_client("operator")

    return limited


@pytest.fixture
def number(alice: Executor) -> int:
    """An open dispatch of alice, lease 60 s, expiry gives back."""
    factories.once_task(alice, lease_seconds=60)
    taken = callback.taken(alice)
    return taken.pk
