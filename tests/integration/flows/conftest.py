"""What several tests of flows stand on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from apps.flows import sweeps
from apps.flows.models import Flow
from tests import factories
from tests.flow_pages import made
from tests.frozen import FrozenClock
from tests.jobs import job_type


@pytest.fixture
def mail(frozen_clock: FrozenClock) -> FrozenClock:
    """One attempt each, so that a failure is final."""
    job_type("mail", max_attempts=1)
    return frozen_clock


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the broker: who has ended something brings its run on himself."""
    sends(monkeypatch, sweeps.advance_run)


def sends(monkeypatch: pytest.MonkeyPatch, send: Callable[[int], object]) -> None:
    """Send the messages that bring runs on this way."""
    app = SimpleNamespace(send_task=lambda _name, args, **_options: send(*args))
    monkeypatch.setattr(sweeps, "current_app", app)


@pytest.fixture
def flow(db: None) -> Flow:
    job_type("mail")
    factories.group("gid_sales", ["uid_ann", "uid_ben"], title="Sales")
    return made()
