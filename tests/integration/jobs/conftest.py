"""What several tests of jobs and their workers stand on."""

from __future__ import annotations

import pytest

from apps.jobs.runner.process import Node, Process


@pytest.fixture
def process() -> Process:
    """A worker with two slots, which serves both lanes."""
    return Process(Node("worker@test", ("fast", "slow"), 2))
