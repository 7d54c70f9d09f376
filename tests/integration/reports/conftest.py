"""What several tests of the reports look at."""

from __future__ import annotations

import pytest

from tests.frozen import FrozenClock
from tests.home_scenes import two_hours
from tests.remembered import Scene

TWO_HOURS = Scene(two_hours)


@pytest.fixture
def scene(frozen_clock: FrozenClock) -> FrozenClock:
    TWO_HOURS.show(frozen_clock)
    return frozen_clock
