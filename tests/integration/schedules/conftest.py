"""What tests of schedules share."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.common import clock
from apps.schedules.services.make import make_due
from tests.frozen import FrozenClock


def sweep() -> int:
    """One turn of the sweep; the number of jobs it made."""
    return make_due(until=clock.now() + timedelta(minutes=1))


@pytest.fixture
def nine(frozen_clock: FrozenClock) -> FrozenClock:
    """Monday 2026-03-02 09:00:00 UTC, until the test moves it."""
    return frozen_clock
