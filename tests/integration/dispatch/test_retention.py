"""Housekeeping: what goes to the archive when it has been over for long, and what stays."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
    Stock,
)
from apps.dispatch.services import ending as endings
from apps.dispatch.services import retention, tasks
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import finish, taken
from tests.frozen import FrozenClock
from tests.integration.dispatch.housekeeping import audit, coming, is_idle, purge

OLGA = factories.OPERATOR

pytestmark = [pytest.mark.both]


class TestDispatches:
    def test_of_a_rotation_go_when_their_time_is_over(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: to the millisecond, with their stock; a later one stays."""
        factories.rotation(alice, rule={"every_days": 1, "at": "09:00"})
        first = finish(alice)
        frozen_clock.advance(days=1)
        second = finish(alice)
        frozen_clock.advance(days=29)
        assert purge() == {}
        frozen_clock.advance(seconds=0.001)
        assert purge() == {"dispatches": 1, "stocks": 1}
        assert Dispatch.objects.get() == second
        assert ArchivedDispatch.objects.get().pk == first.pk
        assert Stock.objects.get().occurrence == second.occurrence != first.occurrence
        audit()

    def test_of_a_once_task_stay_while_it_can_be_shifted(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8, S0.10, I6: otherwise a shift would hand it to the same executor again."""
        settings.TASK_ARCHIVE_AFTER, settings.DISPATCH_RETENTION = timedelta(5000), timedelta(0)
        task = factories.once_task(alice)
        finish(alice)
        frozen_clock.advance(days=4000)
        assert purge() == {}
        tasks.update_task(task=task, changes={"start_at": clock.now()}, actor=OLGA)
        assert is_idle(alice)
        tasks.delete_task(task=OnceTask.objects.get(), actor=OLGA)
        frozen_clock.advance(days=1)
        assert purge() == {"dispatches": 1, "stocks": 1}

    def test_of_every_ending_go(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        """S0.8: whatever it did to the stock."""
        fields: dict[str, Any] = {"mode": "multi", "dispatch_times": 3}
        planned = [factories.once_task(alice, on_failure="retry_same", **fields)]
        finish(alice, "failed")
        finish(alice, "failed")
        for end in (endings.release, endings.cancel, endings.expire_now):
            planned.append(factories.once_task(alice, priority=1 + len(planned), **fields))
            end(dispatch=taken(alice), actor=OLGA, reason="Wrong shop")
        for task in planned:
            tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=31)
        purge()
        assert (Dispatch.objects.count(), Stock.objects.count()) == (0, 0)
        states = set(ArchivedDispatch.objects.values_list("state", flat=True))
        assert states == {"failed", "released", "cancelled", "expired"}

    def test_open_one_stays_with_its_task_and_stock(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: a device that was away for two years may still call back."""
        task = factories.once_task(alice, lease_seconds=2_592_000, on_failure="give_back")
        number = taken(alice).pk
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=800)
        assert purge() == {}
        audit()
        callback.call_back(executor=alice, number=number, outcome="failed")
        audit()
        # Handed out long ago, but ended just now.
        frozen_clock.advance(days=30)
        assert purge() == {"stocks": 1}
        frozen_clock.advance(days=1)
        assert purge() == {"dispatches": 1}
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}

    def test_stock_keeps_the_count_of_those_that_stay(
        self, frozen_clock: FrozenClock, db: None
    ) -> None:
        """S0.8, I1: an occurrence goes in parts."""
        names = [f"uid_{i}" for i in range(5)]
        task = factories.once_task(
            factories.group("gid_all", names), mode="multi", dispatch_times=9
        )
        for name in names[:3]:
            finish(factories.member(name))
        frozen_clock.advance(days=1)
        for name in names[3:]:
            finish(factories.member(name))
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=29, seconds=1)
        assert purge() == {"dispatches": 3}
        assert Stock.objects.get().handed == 2
        audit()

    def test_occurrence_that_can_be_had_keeps_them_whatever_the_settings(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8, I6: nothing goes within the lookback."""
        settings.DISPATCH_ARCHIVE_AFTER = timedelta(minutes=1)
        settings.TASK_ARCHIVE_AFTER = timedelta(minutes=1)
        factories.rotation(alice, rule={"every_days": 30, "at": "09:00"})
        finish(alice)
        frozen_clock.advance(days=7)
        assert purge() == {}
        assert is_idle(alice)
        frozen_clock.advance(days=1, seconds=1)
        assert purge() == {"dispatches": 1, "stocks": 1}
        assert is_idle(alice)


class TestStocks:
    def test_one_that_is_taken_between_reading_and_removal_stays(self, alice: Executor) -> None:
        """S0.8."""
        stock = Stock.objects.create(source="once", task=999, occurrence=0, handed=1)
        assert retention._remove_stocks([stock.pk]) == {}

    def test_left_over_one_goes_and_one_that_can_be_had_stays(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: made for a hand-out that then did not come about."""
        old, deleted = factories.once_task(alice), factories.once_task(alice)
        rotation = factories.rotation(alice)
        tasks.delete_task(task=deleted, actor=OLGA)
        start = frozen_clock.instant
        due_30_days_ago = int(frozen_clock.advance(days=1).timestamp())
        for source, task, occurrence in [
            ("once", old.pk, 0),
            ("once", deleted.pk, 0),
            ("once", 999, 0),
            ("rotate", rotation.pk, due_30_days_ago - 1),
            ("rotate", rotation.pk, due_30_days_ago),
        ]:
            Stock.objects.create(source=source, task=task, occurrence=occurrence, handed=0)
        frozen_clock.move_to(start + timedelta(days=31))
        tasks.update_task(task=old, changes={"title": "Look again"}, actor=OLGA)
        assert purge() == {"once_tasks": 1, "stocks": 3}
        assert set(Stock.objects.values_list("source", "occurrence")) == {
            ("once", 0),
            ("rotate", due_30_days_ago),
        }


class TestTasks:
    def test_never_handed_out_goes_when_it_has_been_over_long(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8: and a rotation without an end never is."""
        settings.TASK_RETENTION = timedelta(0)
        kept = factories.rotation(alice, title="For ever")
        begun, in_3_days = frozen_clock.instant, coming(days=3)
        made: list[tuple[int, OnceTask | RotateTask]] = [
            (33, factories.once_task(alice, end_at=in_3_days)),
            (33, factories.rotation(alice, end_at=in_3_days)),
            (37, factories.once_task(alice)),
            (37, factories.once_task(alice, status="paused")),
            (637, factories.once_task(alice, start_at=coming(days=600))),
        ]
        for days in (33, 37, 637):
            over = [task for after, task in made if after == days]
            frozen_clock.move_to(begun + timedelta(days=days))
            assert purge() == {}
            frozen_clock.advance(days=1)
            assert purge() == Counter(f"{task.source}_tasks" for task in over)
            for task in over:
                assert not type(task)._default_manager.filter(pk=task.pk).exists()
                assert ArchivedTask.objects.filter(source=task.source, task=task.pk).exists()
        frozen_clock.advance(days=4000)
        assert purge() == {}
        assert finish(alice).task == kept.pk

    def test_with_history_it_is_marked_deleted_and_goes_after_it(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8, I55: a dispatch always finds its task; the journal reports why it was deleted."""
        task = factories.once_task(alice, end_at=coming(days=1))
        finish(alice)
        frozen_clock.advance(days=32)
        # The task comes first, and from then on its dispatch decides nothing.
        assert purge() == {"dispatches": 1, "stocks": 1}
        task.refresh_from_db()
        assert (task.status, task.version) == ("deleted", 2)
        entry = JournalEntry.objects.timeline("plan", task.pk).last()
        assert (entry.event, entry.actor) == ("task_deleted", "")
        assert entry.reason == "over since 2026-03-03 09:00:00+00:00"
        assert (
            entry.data.items()
            >= {"before": {"status": "active"}, "after": {"status": "deleted"}}.items()
        )
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}

    def test_edit_puts_it_off(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        task = factories.once_task(alice, end_at=coming(days=3))
        frozen_clock.advance(days=33)
        tasks.update_task(task=task, changes={"title": "Look again"}, actor=OLGA)
        frozen_clock.advance(days=30)
        assert purge() == {}
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}


class TestForgetting:
    """S0.8: what has been in the archive long enough is gone for ever."""

    @pytest.fixture
    def archived(self, alice: Executor, frozen_clock: FrozenClock) -> OnceTask:
        """A task and its dispatch, which ended 32 days ago."""
        task = factories.once_task(alice)
        finish(alice)
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=31)
        assert purge() == {"dispatches": 1, "stocks": 1}
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}
        return task

    def test_dispatch_goes_when_its_retention_is_over_and_then_its_task(
        self, archived: OnceTask, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: to the millisecond; and a task no sooner than its dispatches."""
        frozen_clock.advance(days=368)
        assert purge() == {}
        frozen_clock.advance(seconds=0.001)
        assert purge() == {"archived_dispatches": 1}
        assert ArchivedTask.objects.exists()
        frozen_clock.advance(days=2)
        assert purge() == {"archived_tasks": 1}
        assert not ArchivedTask.objects.exists()
        last = JournalEntry.objects.order_by("id").last()
        assert last is not None
        assert (last.event, last.data) == ("purged", {"archived_tasks": 1})

    def test_task_never_handed_out_goes_alone(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        factories.once_task(alice)
        frozen_clock.advance(days=38)
        assert purge() == {"once_tasks": 1}
        frozen_clock.advance(days=370)
        assert purge() == {}
        frozen_clock.advance(days=1)
        assert purge() == {"archived_tasks": 1}

    @pytest.mark.parametrize("kept", ["DISPATCH_RETENTION", "TASK_RETENTION"])
    def test_retention_of_0_keeps_it(
        self, archived: OnceTask, frozen_clock: FrozenClock, settings: Any, kept: str
    ) -> None:
        setattr(settings, kept, timedelta(0))
        frozen_clock.advance(days=9000)
        purge()
        frozen_clock.advance(days=1)
        purge()
        # A task stays as long as a dispatch of it does.
        assert ArchivedTask.objects.get().task == archived.pk
        assert ArchivedDispatch.objects.exists() is (kept == "DISPATCH_RETENTION")
