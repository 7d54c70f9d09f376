"""Pull: one task at a time, the same until it is over, in order, never past its quota."""

from __future__ import annotations

import inspect
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from apps.common.errors import NotFound
from apps.dispatch.errors import Closed
from apps.dispatch.models import Stock
from apps.dispatch.services import pull, tasks
from apps.dispatch.services.pull import Nothing
from apps.dispatch.services.state import state_by_name
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import finish, take_next, taken

pytestmark = [pytest.mark.django_db, pytest.mark.both]


class TestWhoGetsWhat:
    def test_name_outside_the_binding_is_unknown(self) -> None:
        factories.group("gid_sales", ["uid_bob"])
        factories.user("uid_eve")
        assert state_by_name("uid_bob", bound=["gid_sales"]).name == "uid_bob"
        with pytest.raises(NotFound):
            state_by_name("uid_eve", bound=["gid_sales"])


class TestWhen:
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


class TestOneInFlight:
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
