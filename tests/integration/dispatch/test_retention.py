"""Housekeeping: what goes when its retention is over, and what stays whatever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.common import clock, ids
from apps.common.db import insert_rows
from apps.common.models import SweepLease
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Stock
from apps.dispatch.services import callback, retention, tasks
from apps.dispatch.services import ending as endings
from apps.dispatch.services.pull import Nothing, take_next
from apps.dispatch.services.standing import standing_of
from apps.dispatch.sweeps import purge as sweep
from apps.journal.admin import words
from apps.journal.models import JournalEntry
from taskplatform.beat import schedule
from tests import factories
from tests.frozen import FrozenClock
from tests.kills import killed_at

OLGA = factories.OPERATOR


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LONGEST_REST", 0.0)


def purge() -> Counter[str]:
    return retention.purge(until=clock.now() + timedelta(seconds=60))


def taken(executor: Executor) -> Dispatch:
    answer = take_next(executor)
    assert isinstance(answer, Dispatch), answer
    return answer


def finish(executor: Executor, outcome: str = "succeeded") -> Dispatch:
    return callback.call_back(executor=executor, number=taken(executor).pk, outcome=outcome)


def is_idle(executor: Executor) -> bool:
    return isinstance(take_next(executor), Nothing)


def audit() -> None:
    """I1: stock and dispatches agree, whatever has gone."""
    held = Counter(
        Dispatch.objects.filter(holds_stock=True).values_list("source", "task", "occurrence")
    )
    stocks = {(s.source, s.task, s.occurrence): s.handed for s in Stock.objects.all()}
    assert {key: handed for key, handed in stocks.items() if handed} == dict(held)


@pytest.fixture
def alice(db: None, frozen_clock: FrozenClock) -> Executor:
    """The clock stands at Monday 2026-03-02 09:00 UTC."""
    return factories.user()


class TestDispatches:
    def test_of_a_rotation_go_when_their_retention_is_over(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8: to the millisecond, with their stock; a later one stays."""
        settings.DISPATCH_RETENTION = timedelta(days=30)
        factories.rotation(alice, rule={"every_days": 1, "at": "09:00"})
        first = finish(alice)
        frozen_clock.advance(days=1)
        second = finish(alice)
        frozen_clock.advance(days=29)
        assert purge() == {}
        frozen_clock.advance(seconds=0.001)
        assert purge() == {"dispatches": 1, "stocks": 1}
        assert Dispatch.objects.get() == second
        assert Stock.objects.get().occurrence == second.occurrence != first.occurrence
        audit()

    def test_of_a_once_task_stay_while_it_can_be_shifted(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8, S0.10, I6: otherwise a shift would hand it to the same executor again."""
        settings.DISPATCH_RETENTION, settings.TASK_RETENTION = timedelta(days=30), timedelta(0)
        task = factories.once_task(alice)
        finish(alice)
        frozen_clock.advance(days=4000)
        assert purge() == {}
        tasks.update_task(task=task, changes={"start_at": clock.now()}, actor=OLGA)
        assert is_idle(alice)
        tasks.delete_task(task=OnceTask.objects.get(), actor=OLGA)
        frozen_clock.advance(days=1)
        assert purge() == {"dispatches": 1, "stocks": 1}

    @pytest.mark.parametrize("ending", ["failed", "released", "cancelled", "expired"])
    def test_of_every_ending_go(
        self, alice: Executor, frozen_clock: FrozenClock, ending: str
    ) -> None:
        """S0.8: whatever it did to the stock."""
        task = factories.once_task(alice, on_failure="retry_same", mode="multi", dispatch_times=3)
        if ending == "failed":
            finish(alice, "failed")
            finish(alice, "failed")
        else:
            end = {
                "released": endings.release,
                "cancelled": endings.cancel,
                "expired": endings.expire_now,
            }
            end[ending](dispatch=taken(alice), actor=OLGA, reason="Wrong shop")
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=401)
        purge()
        assert (Dispatch.objects.count(), Stock.objects.count()) == (0, 0)

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
        frozen_clock.advance(days=400)
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
        frozen_clock.advance(days=399, seconds=1)
        assert purge() == {"dispatches": 3}
        assert Stock.objects.get().handed == 2
        audit()

    def test_occurrence_that_can_be_had_keeps_them_whatever_the_settings(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.8, I6: no retention is shorter than the lookback."""
        settings.DISPATCH_RETENTION = timedelta(minutes=1)
        settings.TASK_RETENTION = timedelta(minutes=1)
        factories.rotation(alice, rule={"every_days": 30, "at": "09:00"})
        finish(alice)
        frozen_clock.advance(days=7)
        assert purge() == {}
        assert is_idle(alice)
        frozen_clock.advance(days=1, seconds=1)
        assert purge() == {"dispatches": 1, "stocks": 1}
        assert is_idle(alice)

    def test_window_of_the_executor_stays_the_same(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        """S0.15, S0.8: whose last finished task is gone is served as one long idle."""
        settings.DISPATCH_RETENTION = timedelta(days=8)
        factories.rotation(alice, rule={"every_days": 300, "at": "09:00"})
        finish(alice)
        frozen_clock.advance(days=8, seconds=1)
        before = standing_of(alice.pk).window(clock.now())
        assert purge()["dispatches"] == 1
        assert standing_of(alice.pk).window(clock.now()) == before

    def test_retention_of_0_keeps_all(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        settings.DISPATCH_RETENTION = settings.TASK_RETENTION = timedelta(0)
        task = factories.once_task(alice)
        finish(alice)
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=9000)
        with CaptureQueriesContext(connection) as queries:
            assert purge() == {}
        assert not [q for q in queries.captured_queries if "dispatch_" in q["sql"]]


class TestStocks:
    def test_one_that_is_taken_between_look_and_removal_stays(self, alice: Executor) -> None:
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
        due_400_days_ago = int(frozen_clock.advance(days=1).timestamp())
        for source, task, occurrence in [
            ("once", old.pk, 0),
            ("once", deleted.pk, 0),
            ("once", 999, 0),
            ("rotate", rotation.pk, due_400_days_ago - 1),
            ("rotate", rotation.pk, due_400_days_ago),
        ]:
            Stock.objects.create(source=source, task=task, occurrence=occurrence, handed=0)
        frozen_clock.move_to(start + timedelta(days=401))
        tasks.update_task(task=old, changes={"title": "Look again"}, actor=OLGA)
        assert purge() == {"once_tasks": 1, "stocks": 3}
        assert set(Stock.objects.values_list("source", "occurrence")) == {
            ("once", 0),
            ("rotate", due_400_days_ago),
        }


class TestTasks:
    @pytest.mark.parametrize(
        ("make", "days"),
        [
            (lambda alice: factories.once_task(alice), 407),
            (lambda alice: factories.once_task(alice, end_at=_in(days=3)), 403),
            (lambda alice: factories.once_task(alice, status="paused"), 407),
            (lambda alice: factories.once_task(alice, start_at=_in(days=600)), 1007),
            (lambda alice: factories.rotation(alice, end_at=_in(days=3)), 403),
        ],
    )
    def test_never_handed_out_goes_when_it_has_been_over_long(
        self,
        alice: Executor,
        frozen_clock: FrozenClock,
        make: Callable[[Executor], OnceTask | RotateTask],
        days: int,
    ) -> None:
        """S0.8."""
        made = make(alice)
        frozen_clock.advance(days=days)
        assert purge() == {}
        frozen_clock.advance(days=1)
        assert purge() == {f"{made.source}_tasks": 1}
        assert not type(made)._default_manager.exists()

    def test_open_ended_rotation_is_never_over(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        task = factories.rotation(alice)
        frozen_clock.advance(days=4000)
        assert purge() == {}
        assert finish(alice).task == task.pk

    def test_with_history_it_is_marked_deleted_and_goes_after_it(
        self, alice: Executor, frozen_clock: FrozenClock
    ) -> None:
        """S0.8, I55: a dispatch always finds its task; the journal tells why it was deleted."""
        task = factories.once_task(alice, end_at=_in(days=1))
        finish(alice)
        frozen_clock.advance(days=402)
        # The task comes first, and from then on its dispatch decides nothing.
        assert purge() == {"dispatches": 1, "stocks": 1}
        task.refresh_from_db()
        assert (task.status, task.version) == ("deleted", 2)
        told = JournalEntry.objects.timeline("plan", task.pk).last()
        assert (told.event, told.actor, told.reason) == (
            "task_deleted",
            "",
            "over since 2026-03-03 09:00:00+00:00",
        )
        assert told.data == {"before": {"status": "active"}, "after": {"status": "deleted"}}
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}

    def test_stays_as_long_as_dispatches_are_kept(
        self, alice: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        settings.DISPATCH_RETENTION = timedelta(0)
        task = factories.once_task(alice)
        finish(alice)
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=9000)
        assert purge() == {}
        assert OnceTask.objects.get() == task

    def test_edit_puts_it_off(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        task = factories.once_task(alice, end_at=_in(days=3))
        frozen_clock.advance(days=403)
        tasks.update_task(task=task, changes={"title": "Look again"}, actor=OLGA)
        frozen_clock.advance(days=400)
        assert purge() == {}
        frozen_clock.advance(days=1)
        assert purge() == {"once_tasks": 1}

    def test_template_stays(self, alice: Executor, frozen_clock: FrozenClock) -> None:
        template = factories.template()
        factories.once_task(alice, template=template, params={"shop": "S1"})
        frozen_clock.advance(days=408)
        assert purge() == {"once_tasks": 1}
        template.refresh_from_db()


def _in(**duration: float) -> datetime:
    return clock.now() + timedelta(**duration)


@pytest.fixture
def history(db: None, frozen_clock: FrozenClock, settings: Any) -> Callable[..., list[int]]:
    """Finished dispatches of one deleted task, all past their retention; chunks of two."""
    settings.PURGE_BATCH = 2

    def history(count: int) -> list[int]:
        names = [f"uid_{i}" for i in range(count)]
        task = factories.once_task(
            factories.group("gid_all", names), mode="multi", dispatch_times=None
        )
        numbers = [finish(factories.member(name)).pk for name in names]
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=401)
        return numbers

    return history


class TestChunks:
    def test_each_is_one_transaction_with_one_entry(
        self, history: Callable[..., list[int]]
    ) -> None:
        """S0.8: bounded, by id, and told in the journal with its counts."""
        history(5)
        assert purge() == {"dispatches": 5, "stocks": 1}
        entries = JournalEntry.objects.filter(event="purged").order_by("id")
        assert [entry.data for entry in entries] == [
            {"dispatches": 2},
            {"dispatches": 2},
            {"dispatches": 1, "stocks": 1},
        ]
        assert "purged" in words.EVENTS
        assert {"dispatches", "stocks", "once_tasks", "rotate_tasks"} <= words.NAMES.keys()

    def test_nothing_is_read_twice_within_a_day(
        self, history: Callable[..., list[int]], frozen_clock: FrozenClock
    ) -> None:
        """S0.8: what was kept is looked at again a day later, what is new at once."""
        numbers = history(5)
        # Two that are open are kept, because somebody has set them so.
        Dispatch.objects.filter(pk__in=numbers[:2]).update(finished_at=None)
        assert purge() == {"dispatches": 3}
        assert purge() == {}
        Dispatch.objects.filter(pk__in=numbers[:2]).update(finished_at=clock.now())
        frozen_clock.advance(hours=23, minutes=59)
        assert purge() == {}
        Dispatch.objects.update(finished_at=clock.now() - timedelta(days=401))
        assert purge() == {}
        frozen_clock.advance(minutes=1)
        assert purge()["dispatches"] == 2

    def test_stops_at_its_time_and_goes_on_there(
        self, history: Callable[..., list[int]], frozen_clock: FrozenClock, monkeypatch: Any
    ) -> None:
        """S0.8."""
        numbers = history(6)
        until = clock.now() + timedelta(seconds=1)
        remove = retention._remove_dispatches

        def slow(chosen: list[int]) -> Counter[str]:
            frozen_clock.advance(seconds=1)
            return remove(chosen)

        monkeypatch.setattr(retention, "_remove_dispatches", slow)
        assert retention.purge(until=until) == {"dispatches": 2}
        assert SweepLease.objects.get().position["dispatches"]["after"] == numbers[1]
        assert retention.purge(until=until) == {}
        # It does not begin anew before it has come to the end, however long that takes.
        frozen_clock.advance(days=2)
        begun = SweepLease.objects.get().position["dispatches"]["begun"]
        assert retention.purge(until=clock.now() + timedelta(seconds=1)) == {"dispatches": 2}
        assert SweepLease.objects.get().position["dispatches"]["begun"] == begun
        assert list(Dispatch.objects.values_list("pk", flat=True)) == numbers[4:]

    def test_reads_of_a_chunk_do_not_grow_with_the_rows(
        self, history: Callable[..., list[int]], settings: Any, frozen_clock: FrozenClock
    ) -> None:
        """S0.8: so many statements for two rows, as many for twenty of as many occurrences."""
        settings.PURGE_BATCH, settings.TASK_RETENTION = 500, timedelta(0)

        def statements() -> int:
            with CaptureQueriesContext(connection) as queries:
                assert purge()["dispatches"] > 0
            for query in queries.captured_queries:
                assert " OFFSET " not in query["sql"]
                assert "COUNT(" not in query["sql"]
            return len(queries)

        history(2)
        few = statements()
        alice = factories.user("uid_many")
        for _ in range(20):
            task = factories.once_task(alice)
            finish(alice)
            tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=401)
        assert statements() <= few


def test_sweep_has_a_lease_and_a_period(db: None, frozen_clock: FrozenClock) -> None:
    """S0.8."""
    assert schedule()["dispatch.purge"]["task"] == sweep.name
    factories.once_task(factories.user())
    frozen_clock.advance(days=408)
    SweepLease.objects.create(name=sweep.name, held_until=_in(seconds=1))
    assert sweep() == 0
    frozen_clock.advance(seconds=1)
    assert sweep() == 1


@pytest.mark.django_db(transaction=True)
def test_killed_at_any_statement_leaves_whole_chunks(
    frozen_clock: FrozenClock, settings: Any
) -> None:
    """S0.8, I1: a dispatch goes with its part of the stock and its entry, or not at all."""
    settings.PURGE_BATCH = 2
    names = ["uid_a", "uid_b", "uid_c"]
    task = factories.once_task(factories.group("gid_all", names), mode="multi", dispatch_times=3)
    for name in names:
        finish(factories.member(name))
    tasks.delete_task(task=task, actor=OLGA)
    frozen_clock.advance(days=401)
    statement = 1
    seen = set()
    while killed_at(statement, purge):
        audit()
        told = [e.data["dispatches"] for e in JournalEntry.objects.filter(event="purged")]
        assert Dispatch.objects.count() == 3 - sum(told)
        seen.add(sum(told))
        statement += 1
    assert seen >= {0, 2}
    assert statement > 20
    assert not Dispatch.objects.exists()


@pytest.fixture
def busy(transactional_db: None, settings: Any) -> Iterator[list[Executor]]:
    """Sixteen people with work to pull, beside 300 old dispatches of theirs."""
    settings.PURGE_BATCH = 10
    names = [f"uid_{i:02}" for i in range(16)]
    group = factories.group("gid_all", names)
    people = [factories.member(name) for name in names]
    gone = factories.once_task(group, mode="multi", dispatch_times=None)
    tasks.delete_task(task=gone, actor=OLGA)
    factories.once_task(group, mode="blocking", dispatch_times=300)
    old = clock.now() - timedelta(days=500)
    lowest = ids.lowest_id_at(old)
    insert_rows(
        Dispatch,
        [
            {
                "id": lowest + number,
                "executor_id": people[number % 16].pk,
                "source": "once",
                "task": gone.pk,
                "occurrence": 0,
                "occurrence_at": old,
                "title": "Long ago",
                "params": {},
                "state": "succeeded",
                "round": number // 16,
                "dispatched_at": old,
                "deadline_at": old,
                "finished_at": old,
            }
            for number in range(300)
        ],
    )
    Stock.objects.create(source="once", task=gone.pk, occurrence=0, handed=300)
    yield people


@pytest.mark.mariadb
def test_pulls_during_a_purge_go_on_unchanged(busy: list[Executor], racers: Any) -> None:
    """S0.8: sixteen clients drain a stock of 300 while the past goes from under them."""

    def drain(executor: Executor) -> int:
        count = 0
        while not isinstance(answer := take_next(executor), Nothing):
            callback.call_back(executor=executor, number=answer.pk, outcome="succeeded")
            count += 1
        return count

    race = racers([purge, *(lambda person=person: drain(person) for person in busy)])
    removed, *done = race.results
    assert removed == {"dispatches": 300, "stocks": 1}
    assert sum(done) == 300
    assert Stock.objects.get().handed == 300
    audit()


@pytest.mark.mariadb
def test_chunk_in_progress_holds_up_no_pull_or_callback(busy: list[Executor], racers: Any) -> None:
    """S0.8: with the chunk's locks held, everybody gets and ends a task at once."""
    with transaction.atomic():
        assert purge()["dispatches"] == 300

        def work(executor: Executor) -> str:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            return finish(executor).state

        done = racers([lambda person=person: work(person) for person in busy])
        assert done.results == ["succeeded"] * 16
    audit()
