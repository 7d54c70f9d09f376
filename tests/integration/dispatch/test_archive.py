"""Ended dispatches and tasks that are over go to the archive, are found there, and a task comes
back when somebody restores it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import NotFound, ReplayConflict
from apps.dispatch.errors import Closed
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
    Stock,
)
from apps.dispatch.services import archive, ending, tasks
from apps.dispatch.services.find import existing_dispatch, find_dispatch
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import finish
from tests.frozen import FrozenClock
from tests.integration.dispatch.housekeeping import (
    archived,
    audit,
    coming,
    ended,
    is_idle,
    purge,
    where,
    where_task,
)
from tests.kills import kills

OLGA = factories.OPERATOR
WHO: Any = {"actor": OLGA, "reason": "The shop asks again"}
LIVE, ARCHIVE = ["dispatch_dispatch"], ["dispatch_archived"]
LIVE_TASK, TASK_ARCHIVE = ["dispatch_oncetask"], ["dispatch_archived_task"]

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def over(alice: Executor, frozen_clock: FrozenClock) -> Callable[..., OnceTask]:
    """`over()` is a once task of alice in the archive, that nobody was handed out."""

    def over(executor: Executor = alice, **fields: Any) -> OnceTask:
        task = factories.once_task(executor, **fields)
        frozen_clock.advance(days=38)
        purge()
        assert where_task(task) == TASK_ARCHIVE
        return task

    return over


class TestVerbs:
    @pytest.fixture
    def number(self, alice: Executor) -> int:
        [number] = archived(result={"photos": 3}, executor_id=alice.pk)
        return number

    def test_repeated_callback_gets_its_first_answer(self, alice: Executor, number: int) -> None:
        """S0.20: also a month later."""
        answer = callback.call_back(
            executor=alice, number=number, outcome="succeeded", result={"photos": 3}
        )
        assert (answer.pk, answer.state) == (number, "succeeded")
        both = callback.call_back_and_pull(
            executor=alice, number=number, outcome="succeeded", result={"photos": 3}
        )
        assert both[0].pk == number
        with pytest.raises(ReplayConflict, match="the first answer stands"):
            callback.call_back(executor=alice, number=number, outcome="failed")

    def test_result_of_one_that_ended_otherwise_is_refused_and_kept(self, alice: Executor) -> None:
        [number] = archived(state="expired")
        with pytest.raises(Closed):
            callback.call_back(executor=alice, number=number, outcome="succeeded")
        assert JournalEntry.objects.get(event="late_result").subject_id == number

    def test_all_other_verbs_are_refused_as_closed(self, alice: Executor, number: int) -> None:
        """S0.20."""
        with pytest.raises(Closed):
            callback.extend(executor=alice, number=number, seconds=60)
        with pytest.raises(Closed):
            callback.release(executor=alice, number=number)
        for verb in (ending.cancel, ending.release, ending.expire_now):
            with pytest.raises(Closed, match="is succeeded since"):
                verb(dispatch=existing_dispatch(number), **WHO)
        assert where(number) == ARCHIVE

    def test_one_that_went_since_it_was_read_is_refused_as_closed(self, alice: Executor) -> None:
        [number] = ended()
        read = Dispatch.objects.get(pk=number)
        read.state = "open"
        purge()
        with pytest.raises(Closed, match="is succeeded since"):
            ending.cancel(dispatch=read, **WHO)

    def test_found_by_number_wherever_it_is(self, alice: Executor) -> None:
        """S0.8."""
        [number] = ended()
        assert isinstance(find_dispatch(number), Dispatch)
        purge()
        assert isinstance(find_dispatch(number), ArchivedDispatch)
        assert isinstance(find_dispatch(number, bound=["uid_alice"]), ArchivedDispatch)
        assert find_dispatch(number, bound=["uid_bob"]) is None
        with pytest.raises(NotFound):
            existing_dispatch(7)


class TestTasks:
    def test_restored_one_is_as_it_was_but_paused(
        self, over: Any, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: with its number, and every column to the microsecond."""
        fields: dict[str, Any] = {
            "params": {"shop": "S1", "photos": 3},
            "template": factories.template(),
            "priority": -4,
            "mode": "blocking",
            "dispatch_times": 9,
            "lease_seconds": 77,
            "start_at": coming(microseconds=1234),
            "end_at": coming(days=3, microseconds=5),
        }
        task = over(**fields)
        row = ArchivedTask.objects.get()
        assert (row.title, row.executor, row.start_at) == (task.title, alice, task.start_at)
        assert (row.end_at, row.archived_at) == (task.end_at, clock.now())
        frozen_clock.advance(days=1)
        back = archive.restore_task(OnceTask, number=task.pk, **WHO)
        assert where_task(task) == LIVE_TASK
        stored = OnceTask.objects.get(pk=task.pk)
        assert (stored.status, stored.version) == ("paused", task.version + 1)
        assert (stored.updated_at, stored.updated_by) == (clock.now(), OLGA)
        changed = {"status", "version", "updated_at", "updated_by"}
        names = {field.attname for field in OnceTask._meta.concrete_fields} - changed
        assert all(getattr(stored, name) == getattr(task, name) for name in names)
        assert back == stored
        entry = JournalEntry.objects.timeline("plan", task.pk).last()
        assert (entry.event, entry.actor, entry.reason) == ("restored", OLGA, WHO["reason"])
        assert (
            entry.data.items()
            >= {"before": {"status": "active"}, "after": {"status": "paused"}}.items()
        )

    def test_restored_rotation_has_no_past(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: nothing old is handed out, not even of the last days."""
        task = factories.rotation(alice, misfire="all", misfire_limit=100)
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=31, minutes=1)
        assert purge() == {"rotate_tasks": 1}
        back = archive.restore_task(RotateTask, number=task.pk, **WHO)
        assert (back.status, back.effective_from) == ("paused", clock.now())
        tasks.update_task(task=back, changes={"status": "active"}, actor=OLGA)
        assert is_idle(alice)
        frozen_clock.advance(minutes=30)
        assert finish(alice).task == task.pk

    def test_restored_once_task_is_had_again_when_somebody_plans_it_anew(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8, I1: its dispatch stays in the archive and its quota is new."""
        task = factories.once_task(alice)
        number = finish(alice).pk
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=31)
        purge()
        frozen_clock.advance(days=1)
        purge()
        back = archive.restore_task(OnceTask, number=task.pk, **WHO)
        changes = {"status": "active"}
        tasks.update_task(task=back, changes=changes, actor=OLGA)
        # Still as long ago as it was.
        assert is_idle(alice)
        tasks.update_task(task=back, changes={"start_at": clock.now()}, actor=OLGA)
        again = finish(alice)
        assert (again.task, again.round) == (task.pk, 0)
        assert where(number) == ARCHIVE
        assert Stock.objects.get().handed == 1
        audit()


@pytest.mark.django_db(transaction=True)
class TestKilled:
    def test_move_of_tasks_leaves_each_in_one_table(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """I63: with its entry, or not at all."""
        settings.PURGE_BATCH = 2
        planned = [factories.once_task(alice) for _ in range(3)]
        frozen_clock.advance(days=38)
        seen = set[int]()
        for _ in kills(purge, more_than=2):
            assert all(len(where_task(task)) == 1 for task in planned)
            entries = JournalEntry.objects.filter(event="archived")
            gone = ArchivedTask.objects.count()
            assert gone == sum(entry.data["once_tasks"] for entry in entries)
            seen.add(gone)
        assert seen >= {0, 2}
        assert [where_task(task) for task in planned] == [TASK_ARCHIVE] * 3

    def test_restore_leaves_it_here_or_there(self, over: Any) -> None:
        """I63."""
        task = over()
        for _ in kills(lambda: archive.restore_task(OnceTask, number=task.pk, **WHO), more_than=5):
            assert where_task(task) == TASK_ARCHIVE
            assert not JournalEntry.objects.filter(event="restored").exists()
        assert where_task(task) == LIVE_TASK


class TestRaces:
    def test_only_one_of_two_restores(self, over: Any, racers: Any) -> None:
        """I63."""
        task = over()

        def restore() -> str:
            try:
                return archive.restore_task(OnceTask, number=task.pk, **WHO).status
            except NotFound as refused:
                return refused.code

        assert sorted(racers([restore] * 4).results) == ["not_found"] * 3 + ["paused"]
        assert where_task(task) == LIVE_TASK

    def test_repeated_callbacks_while_it_moves_get_their_first_answer(
        self, alice: Executor, racers: Any
    ) -> None:
        """S0.20, I63: no look misses it, and two movers take each once."""
        numbers = ended(20, executor_id=alice.pk)

        def repeat() -> int:
            answers = [
                callback.call_back(executor=alice, number=number, outcome="succeeded")
                for number in numbers
            ]
            return len(answers)

        race = racers([purge, purge, repeat, repeat])
        first, second, *answered = race.results
        assert answered == [20, 20]
        assert first + second == {"dispatches": 20, "stocks": 20}
        assert all(where(number) == ARCHIVE for number in numbers)
        audit()
