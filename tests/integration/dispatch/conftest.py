"""What tests of dispatch share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.dispatch.services import retention
from tests.caches import TwoProcesses


@pytest.fixture
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge does not rest between its chunks."""
    monkeypatch.setattr(retention, "LONGEST_REST", 0.0)


@pytest.fixture
def processes() -> Iterator[TwoProcesses]:
    """Two that share the database and the cache, and nothing else."""
    both = TwoProcesses()
    yield both
    both.end()
