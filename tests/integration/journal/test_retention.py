"""S2.8: the journal rolls, and forgets what is past its retention, never what is still read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import override_settings

from apps.common import clock, ids, partitions
from apps.common.db import execute, fetch, table
from apps.journal.conf import SinkAddress
from apps.journal.models import JournalEntry, Sink
from apps.journal.services import Entry, retention, write
from apps.journal.sweeps import roll as sweep
from apps.reports.services.rollup import roll_up
from tests.frozen import FrozenClock
from tests.journal import commit, made

pytestmark = pytest.mark.both

KEPT = timedelta(days=100)


def roll(**options: Any) -> retention.Rolled:
    return retention.roll(until=clock.now() + timedelta(seconds=30), **options)


def numbers() -> set[int]:
    return set(JournalEntry.objects.values_list("pk", flat=True))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All entries are added up for the reports."""
    monkeypatch.setattr(retention, "readers", [])


@pytest.fixture
def rolled() -> Iterator[None]:
    """The table as it was after the migrations."""
    yield
    JournalEntry.objects.all().delete()
    name = table(JournalEntry)
    execute(f"ALTER TABLE {name} REMOVE PARTITIONING")
    execute(
        f"ALTER TABLE {name} PARTITION BY RANGE (id) (PARTITION pmax VALUES LESS THAN MAXVALUE)"
    )


def ends() -> list[Any]:
    return [each.end for each in partitions.partitions_of(JournalEntry)]


# --- a plain table, as on SQLite ------------------------------------------------------------------
@pytest.mark.django_db
@override_settings(JOURNAL_RETENTION=KEPT)
def test_old_entries_are_deleted(
    read: None, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "partitions_of", lambda model: [])
    now = frozen_clock.instant
    commit(*(made(now - KEPT - timedelta(hours=n)) for n in range(1, 1_200)))
    kept = commit(made(now - KEPT + timedelta(minutes=1)), made(now))

    assert roll().deleted == 1_199
    assert numbers() == set(kept)
    assert roll() == (0, 0, 0)


# --- who still reads ------------------------------------------------------------------------------
@pytest.mark.django_db
@override_settings(JOURNAL_RETENTION=KEPT)
def test_entries_wait_for_the_reports(frozen_clock: FrozenClock) -> None:
    now = frozen_clock.instant
    assert retention.kept_from(now) < now - timedelta(days=300)  # type: ignore[operator]
    roll_up(until=now + timedelta(minutes=1))
    assert retention.kept_from(now) == now - KEPT


@pytest.mark.django_db
@override_settings(JOURNAL_RETENTION=KEPT, JOURNAL_SINKS=(SinkAddress("lake", "file:///nowhere"),))
def test_entries_wait_for_sinks_but_not_for_ever(read: None, frozen_clock: FrozenClock) -> None:
    now = frozen_clock.instant

    def at(days: int) -> None:
        Sink.objects.filter(name="lake").delete()
        after = ids.lowest_id_at(now - timedelta(days=days))
        Sink.objects.create(name="lake", created_at=now, after=after, checked=0)

    at(1)
    assert retention.kept_from(now) == now - KEPT
    at(110)
    assert retention.kept_from(now) == now - timedelta(days=110)
    at(500)
    assert retention.kept_from(now) == now - KEPT - retention.SINK_KEEPS


# --- partitions -----------------------------------------------------------------------------------
@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
@override_settings(JOURNAL_RETENTION=KEPT)
def test_journal_rolls(read: None, rolled: None, frozen_clock: FrozenClock) -> None:
    """A year of sweeps: every entry is kept for its time, in a bounded number of partitions."""
    written: dict[int, Any] = {}
    for _ in range(73):
        now = frozen_clock.instant
        written |= dict.fromkeys(commit(made(now), made(now + timedelta(hours=5))), now)
        roll()
        found = partitions.partitions_of(JournalEntry)
        assert len(found) <= 36
        # Nothing is ever in the rest, so a cut copies nothing.
        assert fetch(f"SELECT COUNT(*) FROM {table(JournalEntry)} PARTITION (pmax)") == [(0,)]
        there = numbers()
        kept = {pk for pk, at in written.items() if at > now - KEPT}
        assert kept <= there
        frozen_clock.advance(days=5)
    assert min(written) not in there
    oldest = min(written[pk] for pk in there)
    assert oldest > frozen_clock.instant - KEPT - timedelta(days=31 + 10)


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_late_sweep_loses_nothing(
    rolled: None, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = frozen_clock.instant
    before = commit(*(made(now - timedelta(days=n)) for n in range(5)))
    roll()
    frozen_clock.advance(days=400)
    monkeypatch.setattr(partitions, "MOVED_AT_ONCE", 3)
    late = commit(*(made(frozen_clock.instant + timedelta(seconds=n)) for n in range(5)))

    with pytest.raises(partitions.CannotRoll, match="roll_tables --move"):
        roll()
    # The sweep only says so.
    assert sweep() == 0
    assert numbers() == {*before, *late}
    with pytest.raises(CommandError, match="--move"):
        call_command("roll_tables")

    with override_settings(JOURNAL_RETENTION=timedelta(0)):
        call_command("roll_tables", "--move")
    assert numbers() == {*before, *late}
    assert [end for end in ends() if end is not None and end > frozen_clock.instant]


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_writers_go_on_while_it_rolls(read: None, rolled: None) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []
    written = [0]

    def run_writer() -> None:
        try:
            while not stop.is_set():
                with transaction.atomic():
                    write([Entry(at=clock.now(), source="job", subject_id=1, event="failed")])
                written[0] += 1
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            connections.close_all()

    writer = threading.Thread(target=run_writer)
    writer.start()
    try:
        roll()
        now = clock.now()
        last = max(end for end in ends() if end is not None)
        for days in range(1, 5):
            end = partitions._floor(last, timedelta(days=1)) + timedelta(days=days)
            partitions.cut(JournalEntry, [end])
        found = partitions.partitions_of(JournalEntry)
        partitions.drop(JournalEntry, [each for each in found if each.end and each.end > last])
    finally:
        stop.set()
        writer.join()
    assert failures == []
    assert len(numbers()) == written[0] > 0
    assert now < last


@pytest.mark.mariadb
@pytest.mark.django_db
def test_no_foreign_key_leads_to_or_from_the_journal() -> None:
    """A table with partitions can have none."""
    related = [
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.is_relation and JournalEntry in (model, field.related_model)
    ]
    assert related == []
    assert len(partitions.partitions_of(JournalEntry)) == 1
