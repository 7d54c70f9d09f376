"""Pull: one task at a time, the same until it is over, never past its quota, to whom its mode says,
whatever has changed since the last one, here or in another process."""

from __future__ import annotations

import inspect
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock, ids
from apps.common.errors import NotFound
from apps.common.rows import insert_rows
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import candidates, executors, pull, queue, tasks
from apps.dispatch.services.claim import claim
from apps.dispatch.services.executor_state import state_by_name, state_of
from apps.dispatch.services.pull import Nothing
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.caches import TwoProcesses, clear_caches
from tests.callback import end, finish, take_next, taken, title_of
from tests.frozen import FrozenClock, id_maker
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_name_outside_the_binding_is_unknown() -> None:
    factories.group("gid_sales", ["uid_bob"])
    factories.user("uid_eve")
    assert state_by_name("uid_bob", bound=["gid_sales"]).name == "uid_bob"
    with pytest.raises(NotFound):
        state_by_name("uid_eve", bound=["gid_sales"])


@pytest.mark.parametrize("has_finished", [False, True])
def test_work_can_be_had_until_it_is_as_old_as_the_lookback(
    frozen_clock: Any, has_finished: bool
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


def test_edit_leaves_the_open_dispatch_as_it_is(alice: Executor) -> None:
    """S0.16: an edit, pause or delete in flight changes what comes next, not what is out."""
    task = factories.once_task(alice, params={"v": 1})
    number = taken(alice).pk
    changed = tasks.update_task(task=task, changes={"params": {"v": 2}}, actor="admin:o")
    tasks.delete_task(task=changed, actor="admin:olga")
    again = taken(alice)
    assert (again.pk, again.params) == (number, {"v": 1})
    assert callback.call_back(executor=alice, number=number, outcome="succeeded").pk == number


def test_journal_reports_the_hand_out_and_the_end(alice: Executor, frozen_clock: Any) -> None:
    """S0.26, I17: one entry for the hand-out, one for its end, with wait and run time."""
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
    takes_uid = "uid" in inspect.signature(function).parameters
    return is_own and takes_uid and not function.__name__.startswith("_")


def test_a_stock_row_that_a_person_removed_is_made_again() -> None:
    """S1.2: rows are changeable by people, and no executor is shut out by it."""
    group = factories.group("gid_all", ["uid_a"])
    factories.once_task(group, mode="blocking", dispatch_times=5)
    alice = factories.member("uid_a")
    finish(alice)
    Stock.objects.all().delete()
    taken = callback.taken(alice)
    assert (taken.round, Stock.objects.get().handed) == (1, 1)


def test_six_of_twenty_get_it() -> None:
    """S0.9, S0.12, I1, I6: first come, first served, until it is used up."""
    names = [f"uid_{i:02}" for i in range(20)]
    task = factories.once_task(factories.group("gid_all", names), mode="multi", dispatch_times=6)
    winners = [n for n in names if isinstance(take_next(factories.member(n)), Dispatch)]
    assert winners == names[:6]
    assert Stock.objects.get(task=task.pk).handed == 6


@pytest.mark.parametrize("times", [1, 2])
def test_stock_that_another_begins_meanwhile_counts_on(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.9, I1: who finds it begun takes one more, if there is one."""
    group = factories.group("gid_sales", ["uid_a", "uid_b"])
    task = factories.once_task(group, mode="multi", dispatch_times=times)
    meanwhile = iter([factories.member("uid_a")])

    def overtaken(*args: Any) -> Dispatch | None:
        for rival in meanwhile:
            taken(rival)
        return claim(*args)

    monkeypatch.setattr(pull, "claim", overtaken)
    answer = take_next(factories.member("uid_b"))
    assert isinstance(answer, Dispatch) == (times == 2)
    assert Stock.objects.get(task=task.pk).handed == times
    assert Dispatch.objects.count() == times


def test_winner_in_blocking_mode_does_not_win_again_after_it(frozen_clock: Any) -> None:
    """I6: what counts goes on counting when the mode is edited, whatever was returned since."""
    alice = factories.user()
    task = factories.once_task(alice, mode="blocking", dispatch_times=3, lease_seconds=60)
    callback.finish(alice)
    second = callback.taken(alice)
    callback.release(executor=alice, number=second.pk)
    tasks.update_task(task=task, changes={"mode": "multi"}, actor=factories.OPERATOR)
    frozen_clock.advance(seconds=60)
    assert isinstance(take_next(alice), Nothing)


@pytest.fixture
def ann() -> Executor:
    """In a group with bob."""
    factories.group("gid_a", ["uid_ann", "uid_bob"])
    return factories.member("uid_ann")


@pytest.fixture
def bob(ann: Executor) -> Executor:
    return factories.member("uid_bob")


def plan(title: str, **fields: Any) -> Any:
    return factories.once_task(factories.member("gid_a"), title, **fields)


def queued(executor: Executor) -> int:
    """The tasks in the queue of the user, built anew."""
    clear_caches()
    return queue.entry_of(state_of(executor.pk), now=clock.now()).queue.size


def test_what_others_have_finished_is_not_queued_again(ann: Executor, bob: Executor) -> None:
    """S0.20: so that a week of finished work costs a pull nothing."""
    plan("one")
    plan("two", mode="multi", dispatch_times=2)
    assert queued(ann) == 2
    finish(bob)
    assert queued(ann) == 1
    finish(bob)
    assert queued(ann) == 1
    assert title_of(take_next(ann)) == "two"


def test_blocking_task_is_queued_until_its_quota_is_used_up(ann: Executor) -> None:
    """S0.13."""
    plan("one", mode="blocking", dispatch_times=2)
    finish(ann)
    assert queued(ann) == 1
    finish(ann)
    assert queued(ann) == 0


def row_by_row(executor: Executor, count: int, **fields: Any) -> list[OnceTask]:
    """Once tasks of these titles, in this order: 1, 2, …"""
    start = clock.now() - timedelta(hours=1)
    return [
        factories.once_task(executor, str(n), start_at=start + timedelta(minutes=n), **fields)
        for n in range(1, count + 1)
    ]


class TestAfterChanges:
    def test_what_another_process_did_after_the_quiet_counts(
        self, processes: TwoProcesses, frozen_clock: FrozenClock
    ) -> None:
        """S0.19: what is finished there is not handed out here."""
        alice = factories.user()
        later = factories.once_task(alice, start_at=clock.now() + timedelta(minutes=5))
        assert title_of(take_next(alice)) == "nothing"
        processes.swap()
        frozen_clock.move_to(later.start_at)
        finish(alice)
        processes.swap()
        assert title_of(take_next(alice)) == "nothing"

    def test_quiet_ends_when_something_is_due(self, frozen_clock: FrozenClock) -> None:
        """S0.25: at the very instant."""
        alice = factories.user()
        start = clock.now() + timedelta(minutes=5)
        factories.once_task(alice, "later", start_at=start)
        assert title_of(take_next(alice)) == "nothing"
        frozen_clock.move_to(start - timedelta(milliseconds=1))
        assert title_of(take_next(alice)) == "nothing"
        frozen_clock.move_to(start)
        assert title_of(take_next(alice)) == "later"

    def test_an_open_task_is_found_whatever_is_remembered(self, alice: Executor) -> None:
        """I4: as a row that a person has put there."""
        task = factories.once_task(alice, "by hand", start_at=clock.now() + timedelta(hours=1))
        assert title_of(take_next(alice)) == "nothing"
        _handed_out_elsewhere(alice, task, at=clock.now(), open_for=alice.pk, state="open")
        assert title_of(take_next(alice)) == "by hand"

    def test_a_task_that_took_long_is_known_to_be_over(self, frozen_clock: FrozenClock) -> None:
        """S0.19: its end is accepted, however long ago it was handed out."""
        alice = factories.user()
        row_by_row(alice, 3, lease_seconds=7200)
        taken = take_next(alice)
        frozen_clock.move_to(clock.now() + timedelta(minutes=10))
        end(taken)
        frozen_clock.move_to(clock.now() + timedelta(minutes=10))
        sent = sent_by(lambda: title_of(take_next(alice)) == "2")
        assert sum(_is_hand_out(sql) for sql in sent) == 1

    def test_an_executor_made_anew_under_the_name_is_another(self, alice: Executor) -> None:
        assert title_of(take_next(alice)) == "nothing"
        executors.remove_executor(executor=alice, actor="admin:olga")
        factories.once_task(factories.user(alice.name), "of the new one")
        assert title_of(take_next(Executor.objects.get(name=alice.name))) == "of the new one"

    def test_what_a_machine_with_a_slow_clock_gave_is_not_given_again(self) -> None:
        """I6: its dispatch has an id that this process takes for one it knows."""
        alice = factories.user()
        one, two, _ = row_by_row(alice, 3)
        finish(alice)
        _handed_out_elsewhere(alice, two, at=clock.now() - timedelta(hours=1))
        assert title_of(take_next(alice)) == "3"
        assert Dispatch.objects.filter(task=two.pk).count() == 1
        assert Dispatch.objects.filter(task=one.pk).count() == 1

    def test_a_quota_that_others_have_used_up_is_kept(self) -> None:
        """S0.25: the user saw it free, and comes too late."""
        members = [f"uid_{n}" for n in range(3)]
        group = factories.group("gid_all", members)
        a, b, c = map(factories.member, members)
        limited = factories.once_task(group, "limited", mode="multi", dispatch_times=2)
        factories.once_task(a, "first", priority=2)
        factories.once_task(a, "last", priority=-1)
        # It has a stock row, so that it will be tried.
        finish(c)
        first = take_next(a)
        finish(b)
        end(first)
        assert title_of(take_next(a)) == "last"
        assert Stock.objects.get(task=limited.pk).handed == 2

    def test_a_stock_that_somebody_else_has_begun_is_counted_on(self) -> None:
        """S0.25: the user saw no row of it."""
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        a, b = factories.member("uid_a"), factories.member("uid_b")
        shared = factories.once_task(group, "shared", mode="multi", dispatch_times=2)
        factories.once_task(a, "first", priority=2)
        first = take_next(a)
        finish(b)
        end(first)
        attempts: list[Any] = []
        sent = sent_by(lambda: attempts.append(take_next(a)))
        assert title_of(attempts[0]) == "shared"
        assert sum(_is_hand_out(sql) for sql in sent) == 1
        assert Stock.objects.get(task=shared.pk).handed == 2

    def test_what_was_seen_open_is_read_again(
        self, processes: TwoProcesses, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S0.28: another pull, which read its clock long ago, was done between two reads."""
        alice = factories.user()
        past_of, now = candidates.past_of, clock.now()
        start = now - timedelta(hours=1)
        factories.once_task(alice, mode="multi", dispatch_times=3, lease_seconds=60, start_at=start)

        def overtaken(*args: Any) -> Any:
            monkeypatch.setattr(candidates, "past_of", past_of)
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(ids, "_maker", id_maker(node=3))
                frozen_clock.move_to(now - timedelta(seconds=5))
                processes.swap()
                take_next(alice)
                processes.swap()
            frozen_clock.move_to(now)
            return past_of(*args)

        monkeypatch.setattr(candidates, "past_of", overtaken)
        taken = callback.taken(alice)
        assert taken.redo == 1
        callback.release(executor=alice, number=taken.pk)
        frozen_clock.move_to(now + timedelta(seconds=60))
        assert title_of(take_next(alice)) == "Check the shelf"


def _is_hand_out(sql: str) -> bool:
    return 'INTO "dispatch_dispatch"' in sql.replace("`", '"')


def _handed_out_elsewhere(user: Executor, task: OnceTask, *, at: Any, **fields: Any) -> None:
    """By a machine that takes it to be that time."""
    row = {
        "id": ids.lowest_id_at(at),
        "executor_id": user.pk,
        "open_for": None,
        "source": "once",
        "task": task.pk,
        "occurrence": 0,
        "occurrence_at": task.start_at,
        "title": task.title,
        "params": {},
        "template_name": "",
        "template_version": None,
        "state": "succeeded",
        "dispatched_at": at,
        "deadline_at": at + timedelta(hours=1),
        "finished_at": at,
        **fields,
    }
    insert_rows(Dispatch, [row])
    insert_rows(Stock, [{"source": "once", "task": task.pk, "occurrence": 0, "handed": 1}])


@pytest.mark.parametrize("ends", ["released", "expired"])
def test_what_is_held_comes_back(
    ann: Executor, bob: Executor, ends: str, frozen_clock: Any
) -> None:
    """S0.28: returned at once for others, though the queue was built while it was held."""
    plan("one", lease_seconds=60)
    taken: Any = take_next(bob)
    assert queued(ann) == 1
    assert title_of(take_next(ann)) == "nothing"
    if ends == "released":
        callback.release(executor=bob, number=taken.pk)
    else:
        frozen_clock.advance(seconds=60)
        take_next(bob)
    assert title_of(take_next(ann)) == "one"


def test_who_failed_may_try_again(ann: Executor, bob: Executor) -> None:
    """S0.17: with its own stock."""
    plan("one", on_failure="retry_same")
    finish(bob, "failed")
    assert queued(bob) == 1
    assert title_of(take_next(bob)) == "one"
