"""What several tests of jobs and their workers stand on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apps.jobs.runner.process import Node, Process
from apps.jobs.services import slices, type_snapshots
from tests.frozen import FrozenClock
from tests.jobs import job_type


@pytest.fixture(autouse=True)
def young_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known for a second stays so, however long a busy machine takes for a test."""
    for module in (slices, type_snapshots):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def process() -> Process:
    """A worker with two slots, which serves both lanes."""
    return Process(Node("worker@test", ("fast", "slow"), 2))


@pytest.fixture
def mail(frozen_clock: FrozenClock) -> FrozenClock:
    """The clock, beside a type whose ended jobs the archive looks at in every run."""
    job_type("mail")
    return frozen_clock
