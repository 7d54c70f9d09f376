"""S1.2: submitters wake waiting drains, and never wait for Redis themselves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction

from apps.jobs import wakeup
from apps.jobs.runner import listener as listener_module
from apps.jobs.runner.listener import Listener
from apps.jobs.wakeup import over_redis
from tests.processes import eventually

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stands still for some seconds takes neither Redis nor itself for gone."""
    monkeypatch.setattr(over_redis, "_UNREAD_SECONDS", 3600.0)
    monkeypatch.setattr(listener_module, "RECONNECT_SECONDS", 0.0)
    monkeypatch.setattr(over_redis, "_TIMEOUT_SECONDS", 20.0)


@pytest.fixture
def listener() -> Iterator[Any]:
    """A subscriber of the channel of drains that has read all earlier messages."""
    pubsub = cache.client.get_client().pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(wakeup.channel())
    # Together with a mark what came before it may be sent behind it; so one more follows.
    for mark in ("first", "last"):
        wakeup.announce(mark)
        eventually(lambda mark=mark: _received(pubsub) == mark)
    yield pubsub
    pubsub.close()


def _received(pubsub: Any) -> str:
    """The next message, "" when there is none yet."""
    message = pubsub.get_message(timeout=0.1)
    return message["data"].decode() if message else ""


def heard(listener: Any, seconds: float = 30) -> bool:
    return listener.get_message(timeout=seconds) is not None


def test_commit_is_heard_and_rollback_is_not(listener: Any) -> None:
    """S4.13: those who wait hear of it at once."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        wakeup.announce()
        raise ZeroDivisionError
    assert not heard(listener, 0.2)

    with transaction.atomic():
        wakeup.announce()

    assert heard(listener)


def test_burst_is_announced_in_few_messages_and_its_end_is_not_lost(listener: Any) -> None:
    """S4.17: wake-ups are coalesced."""
    for _ in range(200):
        wakeup.announce()
    assert heard(listener)
    count = 1
    while heard(listener, 0.2):
        count += 1
    assert count < 100

    wakeup.announce()

    assert heard(listener)


def next_of(waiting: Listener) -> str | None:
    assert waiting._subscription
    return waiting._subscription.read(0.1)


@pytest.fixture
def drain() -> Iterator[Listener]:
    """The listener of a fast drain that has read all earlier messages."""
    waiting = Listener(lambda: False, lambda: False, ("fast",))
    # The first wait begins to listen.
    assert waiting.wait(30)
    # As above: the last message of an earlier test may come late.
    for mark in ("first", "last"):
        wakeup.announce("fast", mark)
        eventually(lambda mark=mark: next_of(waiting) == f"fast {mark}")
    yield waiting
    waiting.close()


@pytest.mark.parametrize("lane", ["fast", ""])
def test_drain_wakes_for_its_own_lane_and_for_all(drain: Listener, lane: str) -> None:
    wakeup.announce(lane)

    assert drain.wait(30)


def test_drain_sleeps_on_while_only_others_are_meant(drain: Listener) -> None:
    wakeup.announce("slow")

    assert not drain.wait(0.3)

    wakeup.announce("fast")
    assert drain.wait(30)


def test_drain_hears_which_job_is_new(drain: Listener) -> None:
    """S4.13: so it need not search."""
    wakeup.announce("fast", "mail", 7)

    assert drain.wait(30)
    assert drain.new == {"mail": 7}

    wakeup.announce("fast", "bill")

    assert drain.wait(30)
    assert drain.new == {"bill": 0}

    wakeup.announce("fast")

    assert drain.wait(30)
    assert drain.new == {}


def test_drain_hears_on_when_garbage_is_collected(drain: Listener) -> None:
    """Without its client, the subscription would lose its connection and messages."""
    gc.collect()

    wakeup.announce("fast", "mail", 7)

    assert drain.wait(30)
    assert drain.new == {"mail": 7}


def test_of_a_transaction_one_job_of_each_type_is_announced(drain: Listener) -> None:
    with transaction.atomic():
        for number in (1, 2, 3):
            wakeup.announce("fast", "mail", number)

    assert drain.wait(30)
    assert drain.new == {"mail": 1}
    assert not drain.wait(0.2)


def test_wake_up_comes_through_after_its_connection_was_cut(drain: Listener) -> None:
    """Redis ends idle connections if it is configured so."""
    wakeup.announce("fast")
    assert drain.wait(30)
    server = cache.client.get_client()
    own = server.client_info()
    # Those of other test processes, which have other numbers, are under way.
    ours = [each for each in server.client_list(_type="normal") if each["db"] == str(own["db"])]
    cut = [each["id"] for each in ours if each["id"] != str(own["id"])]
    assert cut
    for number in cut:
        server.client_kill_filter(_id=number)

    wakeup.announce("fast", "mail", 7)

    # A process that an earlier test has stopped may still have had something to say.
    eventually(lambda: next_of(drain) == "fast mail 7")
