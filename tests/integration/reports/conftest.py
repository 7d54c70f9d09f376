"""Data that several tests of the reports use."""

from __future__ import annotations

import pytest

from tests.frozen import FrozenClock
from tests.home_scenes import two_hours
from tests.integration.reports.day import HISTORY, NOW
from tests.remembered import Scene

TWO_HOURS = Scene(two_hours)


@pytest.fixture
def scene(frozen_clock: FrozenClock) -> FrozenClock:
    TWO_HOURS.show(frozen_clock)
    return frozen_clock


@pytest.fixture
def now(request: pytest.FixtureRequest, frozen_clock: FrozenClock) -> FrozenClock:
    """The NOW of the tests of a file, or else of the day."""
    frozen_clock.move_to(getattr(request.module, "NOW", NOW))
    return frozen_clock


@pytest.fixture
def history(frozen_clock: FrozenClock) -> None:
    """Some two hundred ends of one day, added up."""
    HISTORY.show(frozen_clock)
