"""Races on a real MariaDB: many connections at once, and exactly one outcome."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from apps.common import clock
from apps.common.errors import PlatformError
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import bulk, executors, tasks
from apps.dispatch.services.expiry import expire_due
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.callback import take_next
from tests.integration.dispatch import housekeeping
from tests.integration.dispatch.pair import answered
from tests.processes import eventually
from tests.statements import waits_for_a_lock

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


def audit() -> None:
    """I1, I17: the S-marked invariants of dispatch, on whatever rows are there."""
    housekeeping.audit()
    housekeeping.audit_journal()
    open_ones = Counter(Dispatch.objects.filter(state="open").values_list("executor", flat=True))
    assert all(count == 1 for count in open_ones.values())


def test_fifty_pulls_of_one_user_are_one_dispatch(racers: Any) -> None:
    """S0.14, I5: one number for all, one decrement; each repeat is counted as another one."""
    alice = factories.user()
    first = factories.once_task(alice)
    factories.once_task(alice)
    race = racers([lambda: take_next(alice)] * 50)
    assert {taken.pk for taken in race.results} == {Dispatch.objects.get().pk}
    assert sorted(taken.redo for taken in race.results) == [*range(50)]
    assert Dispatch.objects.get().redo == 49
    assert [s.task for s in Stock.objects.filter(handed__gt=0)] == [first.pk]
    assert Stock.objects.get(task=first.pk).handed == 1
    audit()


@pytest.mark.parametrize("times", [6, 200, pytest.param(1000, marks=pytest.mark.long)])
def test_stock_goes_out_exactly(racers: Any, times: int) -> None:
    """S0.9, S0.12, I1, I6: 64 clients on a stock of 6 and of many, none lost, none twice."""
    names = [f"uid_{i:02}" for i in range(64)]
    mode = "multi" if times == 6 else "blocking"
    task = factories.once_task(factories.group("gid_all", names), mode=mode, dispatch_times=times)
    people = [factories.member(name) for name in names]

    race = racers([lambda person=person: housekeeping.drain(person) for person in people])
    assert sum(race.results) == times
    assert Stock.objects.get(task=task.pk).handed == times
    if mode == "multi":
        assert sorted(race.results)[-6:] == [1] * 6
    audit()


@pytest.mark.parametrize("count", [1, 20], ids=["alone", "in bulk"])
def test_after_a_delete_has_been_answered_nobody_gets_any(racers: Any, count: int) -> None:
    """I7: pulls against a delete; whatever was handed out began before its answer."""
    names = [f"uid_{i:02}" for i in range(16)]
    everybody = factories.group("gid_all", names)
    planned = [
        factories.once_task(everybody, f"Task {n}", mode="multi", dispatch_times=None)
        for n in range(count)
    ]
    deleted = threading.Event()
    late: list[str] = []

    def pull(name: str) -> None:
        executor = factories.member(name)
        already = deleted.is_set()
        if not isinstance(take_next(executor), Nothing) and already:
            late.append(name)

    def delete() -> None:
        if count == 1:
            tasks.delete_task(task=OnceTask.objects.get(pk=planned[0].pk), actor="admin:olga")
        else:
            done = bulk.change(OnceTask.objects.all(), "delete", actor="admin:olga", reason="x")
            assert done.done == count
        deleted.set()

    assert racers([*(lambda name=name: pull(name) for name in names), delete]).errors == []
    assert late == []
    assert isinstance(take_next(factories.user("uid_late")), Nothing)
    audit()


@pytest.mark.parametrize("edit", ["delete", "leave", "disable"])
def test_edit_waits_for_the_hand_out_that_has_begun(edit: str) -> None:
    """I7: between its check and its commit a hand-out cannot be overtaken by an answered edit."""
    group = factories.group("gid_all", ["uid_a"])
    # Seen just now, so that the pull itself writes nothing to the executor's row.
    assert isinstance(take_next(factories.member("uid_a")), Nothing)
    alice = factories.member("uid_a")
    task = factories.once_task(group)
    edits: dict[str, Callable[[], object]] = {
        "delete": lambda: tasks.delete_task(task=task, actor="admin:olga"),
        "leave": lambda: executors.change_members(group=group, remove=["uid_a"], actor="admin:o"),
        "disable": lambda: executors.update_executor(
            executor=group, changes={"enabled": False}, actor="admin:olga"
        ),
    }
    assert _answer_beside_a_hand_out(alice, edits[edit]) == "done"
    audit()


def test_nobody_is_deleted_who_is_handed_a_task_just_then() -> None:
    """I3: a dispatch without its executor could neither end nor let the sweep end others."""
    group = factories.group("gid_all", ["uid_a"])
    assert isinstance(take_next(factories.member("uid_a")), Nothing)
    alice = factories.member("uid_a")
    factories.once_task(group)

    def remove() -> None:
        executors.remove_executor(executor=alice, actor="admin:olga")

    assert _answer_beside_a_hand_out(alice, remove) == "conflict"
    assert Executor.objects.filter(pk=alice.pk).exists()


@pytest.mark.parametrize("mode", ["once", "rotation"])
def test_planning_for_an_executor_that_is_deleted_is_refused(racers: Any, mode: str) -> None:
    """Each is done or refused with advice: nobody gets an error of the database."""
    plan = factories.once_task if mode == "once" else factories.rotation
    for number in range(5):
        person = factories.user(f"uid_{number}")
        calls: list[Callable[[], object]] = [lambda person=person: plan(person)] * 4
        calls.append(lambda person=person: executors.remove_executor(executor=person, actor="o"))
        race = racers(calls)

        codes = Counter(getattr(error, "code", repr(error)) for error in race.errors)
        exists = Executor.objects.filter(pk=person.pk).exists()
        assert codes == ({"conflict": 1} if exists else {"conflict": 4})


def test_planners_at_once_neither_deadlock_over_executor_nor_template(
    racers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """All raise one plan version and are the first to use one template: none has to try again."""
    alice, template = factories.user(), factories.template("photo", {"type": "object"})
    with caplog.at_level("INFO", logger="apps.common.db"):
        race = racers([lambda: factories.once_task(alice, template=template, params={})] * 24)
    assert len({task.pk for task in race.results}) == 24
    assert not [line for line in caplog.messages if "lock lost" in line]


def _answer_beside_a_hand_out(user: Executor, edit: Callable[[], object]) -> str:
    """Begin the edit between a hand-out to the user and its commit, for which it has to wait:
    "done", or the code of its refusal."""
    answers: list[str] = []
    sessions: list[int] = []

    def answer() -> None:
        try:
            connection.ensure_connection()
            sessions.append(connection.connection.thread_id())
            edit()
            answers.append("done")
        except PlatformError as error:
            answers.append(error.code)
        finally:
            connections.close_all()

    editor = threading.Thread(target=answer)
    with transaction.atomic():
        assert isinstance(take_next(user), Dispatch)
        editor.start()
        # The edit is waiting for our locks, seen by a third party, not by a clock.
        eventually(lambda: answers or any(map(waits_for_a_lock, sessions)))
        assert answers == []
    editor.join(timeout=30)
    [answered] = answers
    return answered


def test_user_whose_call_loses_a_deadlock_is_served_all_the_same() -> None:
    """I6: of a deadlock, the transaction that records when a user was seen is rolled back."""
    alice = factories.user()
    task = factories.once_task(alice)
    sessions: list[int] = []
    answers: list[Any] = []

    def call() -> None:
        connection.ensure_connection()
        sessions.append(connection.connection.thread_id())
        answers.append(take_next(alice))
        connections.close_all()

    caller = threading.Thread(target=call)
    with transaction.atomic():
        # Who has written more goes on.
        factories.once_task(factories.user("uid_ben"))
        with connection.cursor() as cursor:
            people = Executor._meta.db_table
            cursor.execute(f"SELECT title FROM {people} WHERE id = {alice.pk} LOCK IN SHARE MODE")
        caller.start()
        eventually(lambda: answers or any(map(waits_for_a_lock, sessions)))
        assert answers == []
        # This one waits for the transaction that waits already, and that one waits for us.
        Executor.objects.filter(pk=alice.pk).update(title="Alice")
    caller.join(timeout=60)

    [taken] = answers
    assert (taken.task, taken.executor_id) == (task.pk, alice.pk)
    assert factories.member(alice.name).last_seen_at is not None


def test_callbacks_of_one_number_end_it_once(racers: Any) -> None:
    """I13, I16: ten clients, two stories; one wins, its repeats agree, the others are refused."""
    alice = factories.user()
    factories.once_task(alice)
    taken = callback.taken(alice)

    def report(outcome: str) -> str:
        done = {"executor": alice, "number": taken.pk, "outcome": outcome}
        return answered(lambda: callback.call_back(**done).state)

    race = racers([lambda o=o: report(o) for o in ["succeeded", "failed"] * 5])
    winner = Dispatch.objects.get().state
    assert Counter(race.results) == {winner: 5, "conflict": 5}
    audit()


def test_pull_and_callback_of_one_user_are_serialisable(racers: Any) -> None:
    """I15: a pull beside a callback answers the old task or the next one, never a mixture."""
    alice = factories.user()
    tasks_in_order = [factories.once_task(alice).pk for _ in range(2)]
    taken = callback.taken(alice)
    race = racers(
        [
            lambda: callback.call_back(executor=alice, number=taken.pk, outcome="succeeded"),
            *[lambda: take_next(alice)] * 8,
        ]
    )
    assert {answer.task for answer in race.results} <= set(tasks_in_order)
    following = callback.taken(alice)
    assert following.task == tasks_in_order[1]
    assert Dispatch.objects.filter(state="open").count() == 1
    audit()


def test_sweep_and_callback_end_it_once(racers: Any, frozen_clock: Any) -> None:
    """I11, I15: quota returned once or kept, never both."""
    names = [f"uid_{i}" for i in range(8)]
    fields: dict[str, Any] = {"mode": "multi", "dispatch_times": 8, "lease_seconds": 60}
    factories.once_task(factories.group("gid_all", names), **fields)
    numbers = {name: callback.taken(factories.member(name)).pk for name in names}
    frozen_clock.advance(seconds=61)
    until = clock.now() + timedelta(seconds=30)

    def report(name: str) -> str:
        done = {"executor": factories.member(name), "number": numbers[name]}
        return answered(lambda: callback.call_back(**done, outcome="succeeded").state)

    race = racers([lambda: expire_due(until=until), *(lambda n=n: report(n) for n in names)])
    ends = Counter(race.results[1:])
    assert ends["succeeded"] + race.results[0] == 8
    assert ends["closed"] == race.results[0]
    assert Stock.objects.get().handed == ends["succeeded"]
