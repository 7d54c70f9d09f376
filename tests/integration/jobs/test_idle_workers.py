"""How often workers over HTTP ask while nothing is due for them."""

from __future__ import annotations

import heapq
import random
from datetime import timedelta

import pytest

from apps.common import clock
from apps.jobs.services import living, outside
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.both]

SECONDS = 20


def asks_of(number: int, frozen_clock: FrozenClock) -> int:
    """How often so many idle workers ask in that time."""
    begun = clock.now()
    now, asks = 0.0, 0
    times = [outside.retry_after() * random.random() for _ in range(number)]
    heapq.heapify(times)
    while (at := heapq.heappop(times)) < SECONDS:
        frozen_clock.advance(seconds=at - now)
        now, asks = at, asks + 1
        heapq.heappush(times, at + outside.retry_after())
    frozen_clock.instant = begun
    return asks


def test_idle_workers_ask_seldom_whatever_is_due(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Also while jobs that are for none of them are about to be due, one after the other."""
    outside.forget()
    monkeypatch.setattr(outside._poll, "seconds", 0.0)
    for workers in (1, 20, 400):
        monkeypatch.setattr(living, "outsiders", lambda now, number=workers: number)
        for due in (None, 0.0, 0.05, 2.0):
            with subtests.test(workers=workers, due=due):
                left = None if due is None else timedelta(seconds=due)
                monkeypatch.setattr(
                    outside,
                    "_next_due",
                    lambda left=left: None if left is None else clock.now() + left,
                )
                assert asks_of(workers, frozen_clock) <= 60 * SECONDS
