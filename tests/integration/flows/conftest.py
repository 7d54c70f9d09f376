"""What several tests of flows stand on."""

from __future__ import annotations

import pytest

from tests.frozen import FrozenClock
from tests.jobs import job_type


@pytest.fixture
def mail(frozen_clock: FrozenClock) -> FrozenClock:
    """One attempt each, so that a failure is final."""
    job_type("mail", max_attempts=1)
    return frozen_clock
