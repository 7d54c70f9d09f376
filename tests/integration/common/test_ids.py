"""Ids made before the insert, under a node number that no other process has."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from apps.common import clock, ids
from apps.common.errors import Unavailable
from apps.common.ids import NODES, SEQUENCE_BITS, IdMaker, lowest_id_at
from apps.common.models import NodeLease

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def node_of(number: int) -> int:
    return (number >> SEQUENCE_BITS) & (NODES - 1)


def test_ids_ascend_and_are_unique_past_the_sequence_of_a_millisecond(frozen_clock: Any) -> None:
    made = IdMaker().next_ids(10_000)
    assert made == sorted(set(made))
    assert all(0 < number < 2**63 for number in made)


@pytest.mark.django_db(transaction=True)
def test_threads_never_share_an_id(racers: Any) -> None:
    maker = IdMaker()
    maker.reserve()
    race = racers([lambda: maker.next_ids(2000)] * 8)
    assert len({number for made in race.results for number in made}) == 16_000
    assert NodeLease.objects.count() == 1


def test_two_processes_hold_two_numbers() -> None:
    first, second = IdMaker(), IdMaker()
    assert node_of(first.next_ids(1)[0]) != node_of(second.next_ids(1)[0])
    assert NodeLease.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_lease_is_renewed_after_half_its_time(frozen_clock: Any) -> None:
    maker = IdMaker()
    node = node_of(maker.next_ids(1)[0])
    frozen_clock.advance(minutes=5)
    assert node_of(maker.next_ids(1)[0]) == node
    lease = NodeLease.objects.get()
    assert lease.leased_until == frozen_clock.instant + timedelta(minutes=10)


@pytest.mark.django_db(transaction=True)
def test_expired_number_is_left_for_another_and_rests_an_hour(
    frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stalled may still write; its number is not given away within the hour."""
    monkeypatch.setattr(ids, "NODES", 1)
    maker = IdMaker()
    maker.next_ids(1)
    frozen_clock.advance(minutes=70)
    with pytest.raises(Unavailable, match="All 1 node numbers"):
        IdMaker().next_ids(1)
    frozen_clock.advance(seconds=1)
    IdMaker().next_ids(1)
    frozen_clock.advance(minutes=11)
    with pytest.raises(Unavailable):
        maker.next_ids(1)


def test_two_thousand_starts_within_the_hour_leave_numbers_for_more(frozen_clock: Any) -> None:
    until = frozen_clock.instant
    NodeLease.objects.bulk_create(
        NodeLease(node=node, token="old", leased_until=until) for node in range(2000)
    )
    assert node_of(IdMaker().next_ids(1)[0]) >= 2000


@pytest.mark.django_db(transaction=True)
def test_number_taken_in_a_rolled_back_transaction_is_left_to_others() -> None:
    maker = IdMaker()
    with pytest.raises(RuntimeError), transaction.atomic():
        first = node_of(maker.next_ids(1)[0])
        raise RuntimeError
    NodeLease.objects.create(node=first, token="other", leased_until=clock.now() + ids.LEASE)
    assert node_of(maker.next_ids(1)[0]) != first


def test_forked_child_takes_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = IdMaker()
    node = node_of(maker.next_ids(1)[0])
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert node_of(maker.next_ids(1)[0]) != node


def test_id_holds_when_it_was_made() -> None:
    at = datetime(2026, 3, 2, 9, 0, 0, 123_000, tzinfo=UTC)
    assert ids.made_at(lowest_id_at(at)) == at
    assert ids.made_at(lowest_id_at(at) + 2**22 - 1) == at
    assert ids.made_at(lowest_id_at(at) + 2**22) == at + timedelta(milliseconds=1)
