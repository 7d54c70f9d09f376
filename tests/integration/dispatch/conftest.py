"""What tests of dispatch share."""

from __future__ import annotations

import pytest

from apps.dispatch.services import retention


@pytest.fixture
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge does not rest between its chunks."""
    monkeypatch.setattr(retention, "LONGEST_REST", 0.0)
