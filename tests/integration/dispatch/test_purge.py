"""Housekeeping under way: in chunks, bounded, broken off, and beside the work of the day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.common import clock
from apps.common.models import SweepLease
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services import archive, retention, tasks
from apps.dispatch.sweeps import purge as sweep
from apps.journal.admin import words
from apps.journal.models import JournalEntry
from taskplatform.beat import schedule
from tests import factories
from tests.callback import finish
from tests.frozen import FrozenClock
from tests.integration.dispatch.housekeeping import audit, coming, drain, ended, purge

OLGA = factories.OPERATOR

pytestmark = [pytest.mark.both]


@pytest.fixture
def history(db: None, frozen_clock: FrozenClock, settings: Any) -> Callable[..., list[int]]:
    """Finished dispatches of one deleted task, all due for the archive; chunks of two."""
    settings.PURGE_BATCH = 2

    def history(count: int) -> list[int]:
        names = [f"uid_{i}" for i in range(count)]
        task = factories.once_task(
            factories.group("gid_all", names), mode="multi", dispatch_times=None
        )
        numbers = [finish(factories.member(name)).pk for name in names]
        tasks.delete_task(task=task, actor=OLGA)
        frozen_clock.advance(days=31)
        return numbers

    return history


class TestChunks:
    def test_each_is_one_transaction_with_one_entry(
        self, history: Callable[..., list[int]]
    ) -> None:
        """S0.8: bounded, by id, and reported in the journal with its counts."""
        history(5)
        assert purge() == {"dispatches": 5, "stocks": 1}
        entries = JournalEntry.objects.filter(event="archived").order_by("id")
        assert [entry.data for entry in entries] == [
            {"dispatches": 2},
            {"dispatches": 2},
            {"dispatches": 1, "stocks": 1},
        ]
        assert {"archived", "purged", "restored"} <= words.EVENTS.keys()
        assert {"dispatches", "stocks", "once_tasks", "rotate_tasks"} <= words.NAMES.keys()
        assert {"archived_dispatches", "archived_tasks"} <= words.NAMES.keys()

    def test_nothing_is_read_twice_within_a_day(
        self, history: Callable[..., list[int]], frozen_clock: FrozenClock
    ) -> None:
        """S0.8: what was kept is checked again a day later, what is new at once."""
        numbers = history(5)
        # Two that are open are kept, because somebody has set them so.
        Dispatch.objects.filter(pk__in=numbers[:2]).update(finished_at=None)
        assert purge() == {"dispatches": 3}
        assert purge() == {}
        Dispatch.objects.filter(pk__in=numbers[:2]).update(finished_at=clock.now())
        frozen_clock.advance(hours=23, minutes=59)
        assert purge() == {}
        Dispatch.objects.update(finished_at=clock.now() - timedelta(days=31))
        assert purge() == {}
        frozen_clock.advance(minutes=1)
        assert purge()["dispatches"] == 2

    def test_stops_at_its_time_and_goes_on_there(
        self, history: Callable[..., list[int]], frozen_clock: FrozenClock, monkeypatch: Any
    ) -> None:
        """S0.8."""
        numbers = history(6)
        until = clock.now() + timedelta(seconds=1)
        move = archive.move_dispatches

        def slow(chosen: list[int], before: datetime) -> Counter[str]:
            frozen_clock.advance(seconds=1)
            return move(chosen, before)

        monkeypatch.setattr(archive, "move_dispatches", slow)
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
        """S0.8: twenty rows of twenty occurrences take as many statements as two rows."""
        settings.PURGE_BATCH, settings.TASK_ARCHIVE_AFTER = 500, timedelta(days=5000)

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
        frozen_clock.advance(days=31)
        assert statements() <= few


def test_sweep_has_a_lease_and_a_period(db: None, frozen_clock: FrozenClock) -> None:
    """S0.8."""
    assert schedule()["dispatch.purge"]["task"] == sweep.name
    factories.once_task(factories.user())
    frozen_clock.advance(days=38)
    SweepLease.objects.create(name=sweep.name, held_until=coming(seconds=1))
    assert sweep() == 0
    frozen_clock.advance(seconds=1)
    assert sweep() == 1


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
    numbers = ended(300, ago=timedelta(days=300))
    for start in range(0, 300, 16):
        Dispatch.objects.filter(pk__in=numbers[start : start + 16]).update(round=start // 16)
    for position, person in enumerate(people):
        mine = Dispatch.objects.filter(pk__in=numbers[position::16])
        mine.update(executor=person, source="once", task=gone.pk, occurrence=0)
    Stock.objects.all().delete()
    Stock.objects.create(source="once", task=gone.pk, occurrence=0, handed=300)
    yield people


@pytest.mark.mariadb
def test_pulls_during_a_purge_go_on_unchanged(busy: list[Executor], racers: Any) -> None:
    """S0.8: sixteen clients drain a stock of 300 while the past goes from under them."""

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
                # Enough for those sixteen to wait for each other; the chunk ends after them.
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 10")
            return finish(executor).state

        done = racers([lambda person=person: work(person) for person in busy])
        assert done.results == ["succeeded"] * 16
    audit()
