"""What has changed since the hand-out, here or in another process, counts at the callback."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from apps.common import clock
from apps.common.errors import NotFound, ReplayConflict
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services import executors, pull
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.caches import TwoProcesses
from tests.callback import taken
from tests.frozen import FrozenClock
from tests.integration.dispatch.taken import title_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock"), pytest.mark.both]


@pytest.fixture
def group() -> Executor:
    """Of alice alone, and enabled."""
    return factories.group("gid_all", ["uid_alice"])


@pytest.fixture
def alice(group: Executor) -> Executor:
    """At work, so that her queue is known here: of three tasks the first is done."""
    alice = factories.member("uid_alice")
    start = clock.now() - timedelta(hours=1)
    for n in range(1, 4):
        factories.once_task(alice, str(n), start_at=start + timedelta(minutes=n), lease_seconds=60)
    ended(alice, taken(alice))
    return alice


def ended(executor: Executor, dispatch: Dispatch, outcome: str = "succeeded") -> Dispatch:
    return callback.call_back(executor=executor, number=dispatch.pk, outcome=outcome)


def following(executor: Executor, dispatch: Dispatch) -> Dispatch | Nothing:
    _, answer = callback.call_back_and_pull(
        executor=executor, number=dispatch.pk, outcome="succeeded"
    )
    return answer


def _seen(executor: Executor) -> datetime:
    executor.refresh_from_db()
    assert executor.last_seen_at is not None
    return executor.last_seen_at


class TestLastSeen:
    @pytest.mark.parametrize("elsewhere", [False, True], ids=["in one process", "in two"])
    def test_when_the_user_was_seen_is_still_written(
        self, alice: Executor, frozen_clock: FrozenClock, processes: TwoProcesses, elsewhere: bool
    ) -> None:
        """Once a minute, however long the user goes on in this way."""
        for _ in range(6):
            factories.once_task(alice)
        answer: Dispatch | Nothing = taken(alice)
        for n in range(6):
            frozen_clock.advance(seconds=40)
            if elsewhere and n == 1:
                processes.swap()
                answer = taken(alice)
                processes.swap()
                frozen_clock.advance(seconds=1)
            assert isinstance(answer, Dispatch)
            answer = following(alice, answer)
            assert clock.now() - _seen(alice) < timedelta(minutes=1)


class TestAfterChanges:
    """I12: nothing is handed out of a plan that is no longer the plan."""

    def test_so_is_one_of_a_group_that_was_joined(self, alice: Executor) -> None:
        """S0.5: joining while at work."""
        other = factories.group("gid_other", ["uid_bob"])
        factories.once_task(other, "urgent", priority=9)
        first = taken(alice)
        executors.change_members(group=other, add=[alice.name], actor="admin:olga")
        assert title_of(following(alice, first)) == "urgent"

    def test_a_task_of_a_group_that_was_left_is_not(self, alice: Executor, group: Executor) -> None:
        factories.once_task(group, "of the group", priority=1)
        factories.once_task(alice, "first", priority=2)
        first = taken(alice)
        executors.change_members(group=group, remove=[alice.name], actor="admin:olga")
        assert title_of(following(alice, first)) == "2"

    def test_nothing_is_answered_only_of_what_was_read(self, alice: Executor) -> None:
        """S0.25: what has come meanwhile is not kept waiting until somebody asks again."""
        last = following(alice, taken(alice))
        assert title_of(last) == "3"
        assert isinstance(last, Dispatch)
        factories.once_task(alice, "new")
        assert title_of(following(alice, last)) == "new"

    def test_what_has_ended_in_another_process_is_answered_as_there(
        self, alice: Executor, processes: TwoProcesses
    ) -> None:
        """S0.29: a repeat, with the first answer, and with another."""
        first = taken(alice)
        processes.swap()
        first_end = ended(alice, first)
        processes.swap()
        assert ended(alice, first).finished_at == first_end.finished_at
        with pytest.raises(ReplayConflict):
            ended(alice, first, "failed")

    def test_what_a_person_has_removed_from_the_table_is_not_there(self, alice: Executor) -> None:
        first = taken(alice)
        Dispatch.objects.filter(pk=first.pk).delete()
        for report in (ended, following):
            with pytest.raises(NotFound, match="no dispatch"):
                report(alice, first)

    def test_a_key_of_others_learns_nothing_by_it(self, alice: Executor) -> None:
        """The number of a stranger's dispatch opens nothing."""
        first = taken(alice)
        with pytest.raises(NotFound, match="no executor"):
            pull.call_back(alice.name, first.pk, "succeeded", bound=["uid_bob"])
