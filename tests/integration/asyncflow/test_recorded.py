"""Recorded requests of workers are answered as their own servers do. S2.5, S2.12, S2.13."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from apps.asyncflow.dialects import BY_NAME
from tests.frozen import FrozenClock
from tests.integration.asyncflow.replay import Replay, recorded

pytestmark = pytest.mark.django_db


@pytest.mark.both
@pytest.mark.parametrize("name", BY_NAME)
def test_recorded_requests_get_the_answers_byte_by_byte(
    name: str,
    make_key: Callable[..., str],
    frozen_clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The middle of the jitter, so that times are exact.
    monkeypatch.setattr(random, "random", lambda: 0.5)
    replay = Replay(BY_NAME[name].address, make_key())
    for exchange in recorded(name):
        if "after" in exchange:
            frozen_clock.advance(seconds=exchange["after"])
        status, body = replay.send(exchange)
        expected_status, expected = exchange["answer"]
        assert status == expected_status, (exchange["what"], body)
        assert replay.matches(expected, body), f"{exchange['what']}\n{expected}\n{body}"
