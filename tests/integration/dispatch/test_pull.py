"""Pull: one task at a time, the same until it is over, in order, never past its quota."""

from __future__ import annotations

import inspect
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from apps.common.errors import Invalid, NotFound
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.services import ending, executors, pull, tasks
from apps.dispatch.services.pull import Nothing
from apps.dispatch.services.state import state_by_name
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import finish, take_next, taken
from tests.integration.dispatch.taken import handed

pytestmark = [pytest.mark.django_db, pytest.mark.both]


class TestWhoGetsWhat:
    def test_due_task_of_the_user_is_handed_out(self, frozen_clock: Any) -> None:
        """S0.1, S0.27, I2, I3: the hand-out is a row, with the params of the task."""
        alice = factories.user()
        template = factories.template()
        task = factories.once_task(alice, template=template, params={"shop": "A"}, lease_seconds=90)
        dispatch = taken(alice)
        dispatch.refresh_from_db()
        assert (dispatch.source, dispatch.task, dispatch.occurrence) == ("once", task.pk, 0)
        assert dispatch.params == {"shop": "A"}
        assert (dispatch.template_name, dispatch.template_version) == ("photo-check", 1)
        assert dispatch.dispatched_at == frozen_clock.instant
        assert dispatch.deadline_at == frozen_clock.instant + timedelta(seconds=90)
        assert handed(task) == 1

    def test_member_gets_the_task_of_the_group(self) -> None:
        """S0.5, S0.17: tasks come from all groups and from the user's own name."""
        factories.group("gid_sales", ["uid_bob"])
        sales = factories.member("gid_sales")
        bob = factories.member("uid_bob")
        task = factories.once_task(sales)
        assert taken(bob).task == task.pk

    def test_stranger_gets_nothing(self) -> None:
        """I7: never handed to a non-member."""
        factories.once_task(factories.group("gid_sales", ["uid_bob"]))
        assert isinstance(take_next(factories.user("uid_eve")), Nothing)

    def test_leaver_gets_nothing_any_more(self) -> None:
        """S0.5, I60: leaving a group takes effect with its answer."""
        sales = factories.group("gid_sales", ["uid_bob"])
        factories.once_task(sales)
        executors.change_members(group=sales, remove=["uid_bob"], actor="admin:olga")
        assert isinstance(take_next(factories.member("uid_bob")), Nothing)

    @pytest.mark.parametrize("disabled", ["uid_bob", "gid_sales"])
    def test_disabled_executor_gets_nothing(self, disabled: str) -> None:
        """I7, I60: a disabled user or group is handed nothing."""
        factories.once_task(factories.group("gid_sales", ["uid_bob"]))
        executors.update_executor(
            executor=factories.member(disabled), changes={"enabled": False}, actor="admin:olga"
        )
        assert isinstance(take_next(factories.member("uid_bob")), Nothing)

    def test_unknown_name_is_not_found(self) -> None:
        """S0.5: no twin of a name by case, accent or blank is that name."""
        factories.user("uid_bob")
        for name in ("uid_nobody", "bob", "uid_bob ", "UID_BOB", "uid_bób"):
            with pytest.raises(NotFound):
                state_by_name(name)

    def test_group_cannot_pull(self) -> None:
        factories.group("gid_sales")
        with pytest.raises(Invalid, match="gid_sales is a group"):
            state_by_name("gid_sales")

    def test_name_outside_the_binding_is_unknown(self) -> None:
        factories.group("gid_sales", ["uid_bob"])
        factories.user("uid_eve")
        assert state_by_name("uid_bob", bound=["gid_sales"]).name == "uid_bob"
        with pytest.raises(NotFound):
            state_by_name("uid_eve", bound=["gid_sales"])


class TestWhen:
    def test_nothing_before_start(self, frozen_clock: Any) -> None:
        """S0.25, I7: never before its start, and at the very instant of it."""
        alice = factories.user()
        start = frozen_clock.instant + timedelta(seconds=30)
        factories.once_task(alice, start_at=start)
        answer = take_next(alice)
        assert isinstance(answer, Nothing)
        assert 30 <= answer.retry_after <= 33
        frozen_clock.move_to(start)
        assert taken(alice).occurrence_at == start

    def test_nothing_from_end_on(self, frozen_clock: Any) -> None:
        alice = factories.user()
        factories.once_task(alice, end_at=frozen_clock.instant + timedelta(seconds=10))
        frozen_clock.advance(seconds=10)
        assert isinstance(take_next(alice), Nothing)

    def test_nothing_ahead_means_the_longest_wait(self) -> None:
        answer = take_next(factories.user())
        assert isinstance(answer, Nothing)
        assert answer.retry_after == 60

    def test_paused_task_waits_and_comes_back(self) -> None:
        """S0.7: active, paused and deleted are states, not gaps."""
        alice = factories.user()
        task = factories.once_task(alice, status="paused")
        assert isinstance(take_next(alice), Nothing)
        tasks.update_task(task=task, changes={"status": "active"}, actor="admin:olga")
        assert taken(alice).task == task.pk

    def test_deleted_task_is_never_handed_out(self) -> None:
        """I7: not after a delete has been answered."""
        alice = factories.user()
        task = factories.once_task(alice)
        assert tasks.delete_task(task=task, actor="admin:olga")
        assert isinstance(take_next(alice), Nothing)

    def test_long_idle_user_is_not_stuck(self, frozen_clock: Any) -> None:
        """S0.15: the window always reaches the present, however long ago the last task was."""
        alice = factories.user()
        factories.once_task(alice)
        finish(alice)
        frozen_clock.advance(seconds=90 * 86_400)
        task = factories.once_task(alice)
        assert taken(alice).task == task.pk

    def test_newcomer_gets_what_has_waited_for_days(self, frozen_clock: Any) -> None:
        """S0.15: who comes for the first time is served from the whole lookback."""
        alice = factories.user()
        task = factories.once_task(alice, start_at=frozen_clock.instant - timedelta(days=6))
        assert taken(alice).task == task.pk

    def test_older_work_is_not_lost_when_something_due_later_was_finished(
        self, frozen_clock: Any
    ) -> None:
        """S0.15: what is planned stays within reach, whatever was finished meanwhile."""
        alice = factories.user()
        urgent = factories.once_task(alice, priority=9)
        old = factories.once_task(alice, start_at=frozen_clock.instant - timedelta(days=2))
        assert finish(alice).task == urgent.pk
        frozen_clock.advance(hours=7)
        assert taken(alice).task == old.pk

    @pytest.mark.parametrize("has_finished", [False, True])
    def test_work_can_be_had_until_it_is_as_old_as_the_lookback(
        self, frozen_clock: Any, has_finished: bool
    ) -> None:
        """S0.15: for everybody alike."""
        alice = factories.user()
        if has_finished:
            factories.once_task(alice)
            finish(alice)
        a_week_ago = frozen_clock.instant - timedelta(days=7)
        factories.once_task(alice, start_at=a_week_ago)
        assert isinstance(take_next(alice), Nothing)
        kept = factories.once_task(alice, start_at=a_week_ago + timedelta(microseconds=1))
        assert taken(alice).task == kept.pk

    def test_work_created_late_is_not_lost(self, frozen_clock: Any) -> None:
        """S0.15, S0.20: due before the last finished one, yet inside the window."""
        alice = factories.user()
        factories.once_task(alice)
        finish(alice)
        late = factories.once_task(alice, start_at=frozen_clock.instant - timedelta(hours=5))
        assert taken(alice).task == late.pk


class TestOrder:
    def test_priority_then_due_then_id(self, frozen_clock: Any) -> None:
        """S0.21, I8: the order is total, equal instants are all served."""
        alice = factories.user()
        now = frozen_clock.instant
        first = factories.once_task(alice, start_at=now)
        second = factories.once_task(alice, start_at=now)
        early = factories.once_task(alice, start_at=now - timedelta(hours=1))
        urgent = factories.once_task(alice, priority=10)
        order = [finish(alice).task for _ in range(4)]
        assert order == [urgent.pk, early.pk, first.pk, second.pk]
        assert isinstance(take_next(alice), Nothing)


class TestOneInFlight:
    def test_repeated_pull_answers_the_same_number(self) -> None:
        """S0.14, S0.16, I4: a lost answer costs nothing; byte-equal params, no second decrement."""
        alice = factories.user()
        task = factories.once_task(alice, params={"b": [1.5, "é"], "a": None})
        factories.once_task(alice)
        first, second, third = taken(alice), taken(alice), taken(alice)
        assert first.pk == second.pk == third.pk
        assert [first.redo, second.redo, third.redo] == [0, 1, 2]
        assert list(first.params.items()) == list(third.params.items())
        assert handed(task) == 1

    def test_edit_leaves_the_open_dispatch_as_it_is(self) -> None:
        """S0.16: an edit, pause or delete in flight changes what comes next, not what is out."""
        alice = factories.user()
        task = factories.once_task(alice, params={"v": 1})
        number = taken(alice).pk
        changed = tasks.update_task(task=task, changes={"params": {"v": 2}}, actor="admin:o")
        tasks.delete_task(task=changed, actor="admin:olga")
        again = taken(alice)
        assert (again.pk, again.params) == (number, {"v": 1})
        assert callback.call_back(executor=alice, number=number, outcome="succeeded").pk == number

    def test_past_its_deadline_it_is_closed_first(self, frozen_clock: Any) -> None:
        """S0.28, I11: expired once, quota returned once, without waiting for a sweep."""
        alice = factories.user()
        task = factories.once_task(alice, lease_seconds=60)
        first = taken(alice)
        frozen_clock.advance(seconds=60)
        assert isinstance(take_next(alice), Nothing)
        first.refresh_from_db()
        assert (first.state, first.holds_stock, first.open_for) == ("expired", False, None)
        assert handed(task) == 0
        frozen_clock.advance(seconds=60)
        second = taken(alice)
        assert (second.task, second.round) == (task.pk, 1)


class TestEndings:
    def test_failure_given_back_goes_to_others_at_once(self, frozen_clock: Any) -> None:
        """S0.29: on_failure give_back returns the stock; the same executor cools down."""
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        task = factories.once_task(group, on_failure="give_back", lease_seconds=60)
        alice, bob = factories.member("uid_a"), factories.member("uid_b")
        finish(alice, "failed")
        assert handed(task) == 0
        waiting = take_next(alice)
        assert isinstance(waiting, Nothing)
        assert waiting.retry_after == 60
        assert taken(bob).task == task.pk

    def test_failure_that_counts_is_over(self) -> None:
        task = factories.once_task(factories.user(), on_failure="finish")
        alice = factories.member("uid_alice")
        finish(alice, "failed")
        assert isinstance(take_next(alice), Nothing)
        assert handed(task) == 1

    def test_retry_same_keeps_the_stock_for_max_rounds(self) -> None:
        """S0.29, I1: three rounds on one count of stock, then it is over."""
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        task = factories.once_task(group, on_failure="retry_same", max_rounds=3)
        alice, bob = factories.member("uid_a"), factories.member("uid_b")
        for round_ in range(3):
            assert finish(alice, "failed").round == round_
            assert isinstance(take_next(bob), Nothing)
            assert handed(task) == 1
            assert Dispatch.objects.filter(task=task.pk, holds_stock=True).count() == 1
        assert isinstance(take_next(alice), Nothing)

    def test_released_returns_and_cools_down(self, frozen_clock: Any) -> None:
        """S0.28: the release endpoint returns the quota."""
        alice = factories.user()
        task = factories.once_task(alice, lease_seconds=60)
        number = taken(alice).pk
        callback.release(executor=alice, number=number, reason="flat tyre")
        assert handed(task) == 0
        assert isinstance(take_next(alice), Nothing)
        frozen_clock.advance(seconds=60)
        assert taken(alice).round == 1

    def test_cancelled_never_comes_back_to_the_same(self, frozen_clock: Any) -> None:
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        task = factories.once_task(group, lease_seconds=60)
        alice, bob = factories.member("uid_a"), factories.member("uid_b")
        ending.cancel(dispatch=taken(alice), actor="admin:olga", reason="wrong shop")
        frozen_clock.advance(seconds=3600)
        assert isinstance(take_next(alice), Nothing)
        assert handed(task) == 0
        assert taken(bob).task == task.pk


def test_journal_reports_the_hand_out_and_the_end(frozen_clock: Any) -> None:
    """S0.26, I17: one entry for the hand-out, one for its end, with wait and run time."""
    alice = factories.user()
    factories.once_task(alice)
    frozen_clock.advance(seconds=2)
    number = taken(alice).pk
    taken(alice)
    frozen_clock.advance(seconds=3)
    callback.call_back(executor=alice, number=number, outcome="failed", message="Shop is closed")
    first, second = JournalEntry.objects.timeline("dispatch", number)
    assert (first.event, first.to_state, first.wait_ms, first.actor) == (
        "handed_out",
        "open",
        2000,
        "uid_alice",
    )
    assert (second.event, second.from_state, second.run_ms, second.error) == (
        "failed",
        "open",
        3000,
        "Shop is closed",
    )


CALLS: dict[str, Any] = {
    "answer_pull": lambda uid, number: pull.answer_pull(uid),
    "extend": lambda uid, number: pull.extend(uid, number, 3600),
    "release": lambda uid, number: pull.release(uid, number),
    "call_back": lambda uid, number: pull.call_back(uid, number, "succeeded"),
    "call_back_and_pull": lambda uid, number: pull.call_back_and_pull(uid, number, "succeeded"),
}


def test_every_call_of_a_user_is_noted_at_most_once_a_minute(
    frozen_clock: Any, subtests: pytest.Subtests
) -> None:
    """Who extends the whole night is not silent."""
    by_user = {name for name, each in inspect.getmembers(pull, inspect.isfunction) if _acts(each)}
    assert by_user == set(CALLS)
    for name, call in CALLS.items():
        with subtests.test(name):
            user = factories.user(f"uid_{name}")
            factories.once_task(user)
            number = taken(user).pk
            seen = frozen_clock.instant
            for seconds, noted in ((59, 0), (1, 60), (59, 60)):
                frozen_clock.advance(seconds=seconds)
                with suppress(Closed):
                    call(user.name, number)
                user.refresh_from_db()
                assert user.last_seen_at == seen + timedelta(seconds=noted)


def _acts(function: Any) -> bool:
    is_own = function.__module__ == pull.__name__
    return is_own and not function.__name__.startswith("_") and "uid" in _parameters(function)


def _parameters(function: Any) -> Any:
    return inspect.signature(function).parameters


def test_a_stock_row_that_a_person_removed_is_made_again() -> None:
    """S1.2: rows are changeable by people, and no executor is shut out by it."""
    group = factories.group("gid_all", ["uid_a"])
    factories.once_task(group, mode="blocking", dispatch_times=5)
    alice = factories.member("uid_a")
    finish(alice)
    Stock.objects.all().delete()
    taken = callback.taken(alice)
    assert (taken.round, Stock.objects.get().handed) == (1, 1)
