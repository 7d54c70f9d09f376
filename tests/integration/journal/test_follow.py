"""S0.30: nothing of the journal is lost, whatever commits late, is rolled back or refused."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from django.test import override_settings

from apps.common import clock
from apps.journal.models import JournalEntry
from apps.journal.services.follow import Position, Seen, follow
from apps.journal.services.minutes import MINUTE, counted, first_id, second_of
from apps.journal.sinks import Unavailable
from tests.frozen import FrozenClock
from tests.journal import Remembering, commit, made

pytestmark = [pytest.mark.django_db, pytest.mark.both]
GRACE, LATE = timedelta(seconds=5), timedelta(minutes=15)


class Follower:
    """A follower of this process; `forget` makes it that of another one."""

    def __init__(self, frozen: FrozenClock) -> None:
        self.clock = frozen
        self.at = Position.at_present(clock.now())
        self.sink = Remembering()
        self.kept: list[Position] = []
        self.forget()

    def forget(self) -> None:
        self.seen = Seen()

    def turn(self) -> None:
        follow(
            self.at,
            self.sink.deliver,
            lambda: self.kept.append(Position(**vars(self.at))),
            seen=self.seen,
            until=clock.now() + timedelta(seconds=10),
        )

    def later(self, **length: float) -> None:
        """A turn when that time has passed."""
        self.clock.advance(**length)
        self.turn()


@pytest.fixture
def follower(frozen_clock: FrozenClock) -> Follower:
    frozen_clock.advance(seconds=20)
    return Follower(frozen_clock)


def test_new_follower_gets_nothing_of_before_its_beginning(frozen_clock: FrozenClock) -> None:
    """The minutes before it are no late ones."""
    commit(made(frozen_clock.instant))
    frozen_clock.advance(minutes=1)
    begun = Follower(frozen_clock)
    commit(new := made(frozen_clock.instant))

    begun.later(minutes=2)
    begun.later(minutes=2)

    assert begun.sink.ids == [new.id]


def test_entries_wait_for_those_with_lower_ids(follower: Follower) -> None:
    now = follower.clock.instant
    slow, fast = made(now), made(now + timedelta(seconds=1))
    commit(fast)
    follower.later(seconds=4)
    assert follower.sink.ids == []

    commit(slow)
    follower.later(seconds=3)

    assert follower.sink.ids == [slow.pk, fast.pk]


def test_another_process_sends_the_minute_of_a_late_commit_again_once(follower: Follower) -> None:
    now = follower.clock.instant
    late, early = made(now), made(now + timedelta(seconds=1))
    [other] = commit(made(now + timedelta(minutes=1)))
    commit(early)
    follower.later(minutes=2)
    follower.forget()
    commit(late)
    for _ in range(3):
        follower.later(minutes=1)

    assert Counter(follower.sink.ids) == {early.pk: 2, late.pk: 1, other: 1}


def test_late_commits_before_a_pause_are_found_after_it(follower: Follower) -> None:
    now = follower.clock.instant
    late, early = made(now), made(now + timedelta(seconds=1))
    commit(early)
    follower.later(minutes=2)
    commit(late)
    follower.clock.advance(hours=5)
    [recent] = commit(made(follower.clock.instant - timedelta(minutes=1)))
    follower.turn()

    assert follower.sink.ids == [early.pk, recent, late.pk]


def test_long_backlog_keeps_counts_of_few_minutes(follower: Follower) -> None:
    start = follower.clock.instant
    commit(*(made(start + timedelta(minutes=n)) for n in range(120)))
    follower.later(hours=3)

    assert len(follower.sink.ids) == 120
    assert len(follower.at.counts) <= 2 * (LATE // timedelta(minutes=1) + 2)


def test_turn_ends_with_its_time(follower: Follower) -> None:
    commit(made(follower.clock.instant))
    follower.clock.advance(minutes=1)
    follow(
        follower.at,
        follower.sink.deliver,
        lambda: None,
        seen=follower.seen,
        until=clock.now() - timedelta(seconds=1),
    )
    assert follower.sink.ids == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("forgets", [0.0, 0.002])
def test_whatever_commits_within_the_limit_is_delivered(
    seed: int, forgets: float, follower: Follower
) -> None:
    """5 % roll back, some commit minutes late; the sink fails and is carried to by others."""
    chance = random.Random(seed)
    committed: list[int] = []
    open_: list[tuple[float, JournalEntry]] = []
    for second in range(40 * MINUTE):
        now = follower.clock.advance(seconds=1)
        if second < 15 * MINUTE and chance.random() < 0.3:
            wait = chance.choice([0, 0, 0, 1, 4, 40, 400, 800])
            open_.append((second + wait, made(now)))
        ready = [entry for at, entry in open_ if at <= second]
        open_ = [each for each in open_ if each[0] > second]
        committed += commit(*(entry for entry in ready if chance.random() > 0.05))
        if second % 7 == 0:
            follower.sink.raises = [Unavailable("away")] if chance.random() < 0.1 else []
            try:
                follower.turn()
            except Unavailable:
                pass
        if chance.random() < forgets:
            follower.forget()

    assert set(follower.sink.ids) == set(committed)
    if not forgets:
        assert len(follower.sink.ids) == len(committed)


@override_settings(JOURNAL_LATE=timedelta(minutes=1))
def test_later_than_the_limit_is_not_found(follower: Follower) -> None:
    late, early = made(follower.clock.instant), made(follower.clock.instant)
    commit(early)
    follower.later(minutes=5)
    commit(late)
    follower.later(minutes=5)

    assert follower.sink.ids == [early.pk]


def test_entry_counts_in_the_minute_of_its_id() -> None:
    start = second_of(clock.now()) // MINUTE * MINUTE
    numbers = [first_id(start), first_id(start + MINUTE) - 1, first_id(start + MINUTE)]
    for number in numbers:
        commit(JournalEntry(id=number, at=clock.now(), source="job", subject_id=1, event="lost"))

    assert counted([start, start + MINUTE]) == {start: 2, start + MINUTE: 1}
