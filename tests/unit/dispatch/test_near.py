"""The queues that a process keeps near: so many, and those used last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from apps.dispatch.cache import Entry, Near
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import Policy
from apps.dispatch.rules.queue import Queue
from apps.dispatch.rules.window import Window

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
FRAME = Window(NOW - timedelta(hours=6), NOW + timedelta(hours=6))
POLICY = Policy(
    mode="single",
    dispatch_times=1,
    lease_seconds=60,
    on_failure="finish",
    on_expiry="keep",
    max_rounds=3,
)


def entry(tasks: int, version: int = 1) -> Entry:
    plan = [Planned("once", n, 0, NOW, None, POLICY, 1, 1) for n in range(tasks)]
    return Entry(((1, version),), NOW, Queue(plan, frame=FRAME, now=NOW))


Queues: TypeAlias = Near[int, Entry]


def queues(most: int) -> Queues:
    return Near(most, weigh=lambda entry: 1 + entry.queue.size)


def held(near: Queues, *executors: int) -> list[int]:
    return [executor for executor in executors if near.get(executor) is not None]


def test_no_more_candidates_are_held_than_told() -> None:
    near = queues(30)
    for executor in range(1, 5):
        near.put(executor, entry(9))
    assert held(near, 1, 2, 3, 4) == [2, 3, 4]


def test_those_not_used_for_longest_go_first() -> None:
    near = queues(30)
    for executor in range(1, 4):
        near.put(executor, entry(9))
    near.get(1)
    near.put(4, entry(9))
    assert held(near, 1, 2, 3, 4) == [1, 3, 4]


def test_a_newer_queue_takes_the_place_of_the_old_one() -> None:
    near = queues(30)
    for version in range(9):
        near.put(1, entry(9, version))
    near.put(2, entry(9))
    assert held(near, 1, 2) == [1, 2]
    newest = near.get(1)
    assert newest is not None
    assert newest.versions == ((1, 8),)


def test_what_is_cleared_makes_room() -> None:
    near = queues(20)
    near.put(1, entry(9))
    near.put(2, entry(9))
    near.clear()
    assert held(near, 1, 2) == []
    near.put(3, entry(9))
    near.put(4, entry(9))
    assert held(near, 3, 4) == [3, 4]


def test_a_queue_larger_than_all_is_not_held() -> None:
    near = queues(20)
    near.put(1, entry(50))
    assert held(near, 1) == []
