"""The archive of dispatches rolls on MariaDB: cut ahead, dropped when over, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from apps.common import partitions
from apps.common.leases import sweep_lease
from apps.dispatch import sweeps
from apps.dispatch.models import ArchivedDispatch, Executor, Stock
from apps.dispatch.services import retention
from apps.dispatch.services.find import find_dispatch
from apps.dispatch.services.roll import ROLLING
from apps.journal.models import JournalEntry
from taskplatform.beat import schedule
from tests.frozen import FrozenClock
from tests.integration.dispatch.housekeeping import (
    archived,
    audit,
    ended,
    purge,
    unite_archive,
    where,
)
from tests.kills import killed_at

pytestmark = pytest.mark.both

pytestmark = [
    pytest.mark.mariadb,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("united", "alice"),
]

ARCHIVE = ["dispatch_archived"]


@pytest.fixture
def united(transactional_db: None) -> Iterator[None]:
    """The archive has one partition before and after each test, as `migrate` leaves it."""
    unite_archive()
    yield
    unite_archive()


def names() -> list[str]:
    return [each.name for each in partitions.partitions_of(ArchivedDispatch)]


def test_three_are_cut_ahead_and_more_as_time_goes_on(frozen_clock: FrozenClock) -> None:
    """S2.8: by months at first, as nothing is known of how many dispatches come."""
    assert ROLLING.roll() == (3, 0)
    ends = [each.end for each in partitions.partitions_of(ArchivedDispatch)]
    assert ends[0] == datetime(2026, 4, 2, tzinfo=UTC)
    assert ROLLING.roll() == (0, 0)
    frozen_clock.advance(days=31)
    assert ROLLING.roll() == (1, 0)


def test_too_many_rows_to_move_are_left_to_a_person(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = archived(20)
    monkeypatch.setattr(partitions, "MOVED_AT_ONCE", 19)
    assert sweeps.roll() == 0
    assert "archived dispatches lie behind" in caplog.text
    assert "roll_tables --move" in caplog.text
    call_command("roll_tables", "--move", stdout=(out := StringIO()))
    assert "archive of dispatches: 3 partitions cut, 0 dropped" in out.getvalue()
    assert [where(number) for number in numbers] == [ARCHIVE] * 20


def test_dropped_when_all_its_dispatches_are_over(frozen_clock: FrozenClock) -> None:
    """S0.8: at once, with one entry; what is younger stays."""
    ROLLING.roll()
    old = archived(30)
    frozen_clock.advance(days=90)
    young = archived(5)
    # The last day of the month of the old ones is 2026-04-02.
    frozen_clock.advance(days=340)
    assert ROLLING.roll().dropped == 0
    frozen_clock.advance(days=1)
    assert ROLLING.roll().dropped == 1
    assert not any(where(number) for number in old)
    assert all(where(number) == ARCHIVE for number in young)
    entries = [e.data for e in JournalEntry.objects.filter(event="purged")]
    assert entries == [{"archived_dispatches": 30, "partition": "p2026040200"}]


def test_what_no_partition_took_goes_one_by_one_a_month_later(frozen_clock: FrozenClock) -> None:
    """S0.8."""
    ROLLING.roll()
    [number] = ended(ago=timedelta(days=401))
    # The dispatch and its stock.
    assert sweeps.purge() == 2
    assert where(number) == ARCHIVE
    frozen_clock.advance(days=33)
    assert sweeps.purge() == 1
    assert where(number) == []


def test_nothing_is_dropped_while_the_mover_works(frozen_clock: FrozenClock) -> None:
    """I63: it may bring a dispatch that was handed out early and ended late."""
    archived(3)
    ROLLING.roll()
    frozen_clock.advance(days=500)
    with sweep_lease(retention.SWEEP, at_most=timedelta(minutes=1)):
        assert ROLLING.roll().dropped == 0
    assert ArchivedDispatch.objects.count() == 3
    assert ROLLING.roll().dropped > 0
    assert ArchivedDispatch.objects.count() == 0


def test_zero_drops_nothing(frozen_clock: FrozenClock, settings: Any) -> None:
    settings.DISPATCH_RETENTION = timedelta(0)
    archived(3)
    ROLLING.roll()
    frozen_clock.advance(days=4000)
    assert ROLLING.roll().dropped == 0
    assert ArchivedDispatch.objects.count() == 3


def test_killed_at_any_statement_cuts_and_drops_whole(frozen_clock: FrozenClock) -> None:
    """S0.8, I63: and what is gone is in the journal."""
    archived(30)
    statement = 1
    while killed_at(statement, ROLLING.roll):
        assert ArchivedDispatch.objects.count() == 30
        assert len(names()) in (1, 4)
        statement += 1
    assert statement > 4
    frozen_clock.advance(days=460)
    statement = 1
    while killed_at(statement, ROLLING.roll):
        left = ArchivedDispatch.objects.count()
        assert left in (0, 30)
        assert left or JournalEntry.objects.filter(event="purged").exists()
        # The lease of the one that died ends.
        frozen_clock.advance(minutes=11)
        statement += 1
    assert statement > 8
    assert ArchivedDispatch.objects.count() == 0


def test_moves_go_on_while_it_rolls(racers: Any, frozen_clock: FrozenClock) -> None:
    """S0.8, I1: mover, cutter and dropper at once."""
    ROLLING.roll()
    archived(20)
    frozen_clock.advance(days=440)
    numbers = ended(200)
    race = racers([purge, sweeps.roll, purge, sweeps.roll])
    assert race.errors == []
    assert all(len(where(number)) == 1 for number in numbers)
    # What one mover skipped while the other had it locked, it looks at again.
    frozen_clock.advance(seconds=retention.PASS.total_seconds())
    purge()
    assert all(where(number) == ARCHIVE for number in numbers)
    assert not Stock.objects.exists()
    audit()


def test_lookups_read_an_index(alice: Executor) -> None:
    """S0.8: by number, by executor and by task, in all partitions."""
    ROLLING.roll()
    numbers = archived(300, executor_id=alice.pk)
    assert isinstance(find_dispatch(numbers[7]), ArchivedDispatch)
    with connection.cursor() as cursor:
        # As the database does by itself when a tenth of the rows is new.
        cursor.execute("ANALYZE TABLE dispatch_archived")
        cursor.fetchall()

        def entries_read() -> int:
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
            return sum(int(count) for _name, count in cursor.fetchall())

        newest = ArchivedDispatch.objects.order_by("-pk")
        for rows in (newest.filter(executor=alice), newest.filter(source="rotate", task=999)):
            before = entries_read()
            assert len(rows[:10]) == 10
            # Four partitions, and what the status itself reads.
            assert entries_read() - before < 200


def test_sweep_has_a_lease_and_a_period() -> None:
    assert schedule()["dispatch.roll"]["task"] == sweeps.roll.name
    with sweep_lease(ROLLING.sweep, at_most=timedelta(minutes=1)):
        assert sweeps.roll() == 0
    assert sweeps.roll() == 3
