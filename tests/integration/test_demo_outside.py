"""Programs that the demo starts on other machines end with it, however it is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from apps.access.models import ApiClient
from taskplatform.demo.outside import outside

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP], ids=str)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that ends programs, also where `nohup` has started the tests."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_stopped_demo_leaves_no_program_no_folder_and_no_key(number: signal.Signals) -> None:
    """After SIGTERM the workers asked for jobs for ever, with a key that stayed."""
    before = [signal.getsignal(each) for each in signal.Signals if each is not signal.SIGKILL]
    with (
        pytest.raises(KeyboardInterrupt),
        outside("outside_worker.py", name="Demo workers", scopes=["hold"]) as there,
    ):
        there.start("w-1", "http://127.0.0.1:1", "w-1", "demo-shelves")
        folder = there.folder
        os.kill(os.getpid(), number)
        pytest.fail("It went on.")

    assert there.died() == ["w-1"]
    assert not folder.exists()
    assert ApiClient.objects.get().revoked_at is not None
    assert before == [
        signal.getsignal(each) for each in signal.Signals if each is not signal.SIGKILL
    ]
