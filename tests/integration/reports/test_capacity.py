"""S1.17, S2.8: the page of capacity."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.common import partitions, storage
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services.roll import ROLLING
from apps.journal.models import JournalEntry
from apps.reports.services import capacity
from tests import factories
from tests.frozen import FrozenClock
from tests.history import unite_archive
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import drawn, utc, write
from tests.pages import tables_of, text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]
URL = reverse("capacity")
TODAY = utc("2026-03-03T13:52:10")


@pytest.fixture
def two_days(frozen_clock: FrozenClock) -> int:
    """The entries of two full days, and some of today."""
    frozen_clock.move_to(TODAY)
    full = drawn(150, utc("2026-03-01T00:00:00"), utc("2026-03-02T23:59:59"))
    write(*full, *drawn(40, utc("2026-03-03T00:00:00"), utc("2026-03-03T13:00:00")))
    for _round in range(4):
        roll_up()
    return len(full)


def test_rows_a_day_are_counted_exactly_by_full_days(two_days: int) -> None:
    rates = capacity.rates_of(TODAY)
    ends = ("succeeded", "failed", "timed_out", "expired", "cancelled")
    full = JournalEntry.objects.filter(at__lt=utc("2026-03-03T00:00:00"))
    handed = full.filter(source="dispatch", event="handed_out").count()
    jobs = full.filter(source="job", to_state__in=("succeeded", "failed", "cancelled"))
    ended = jobs.exclude(from_state="running", to_state="running").filter(event__in=(*ends, "lost"))

    assert rates == (2, two_days / 2, ended.count() / 2, handed / 2)


def test_page_shows_tables_and_what_they_come_to(two_days: int, admin_client: Client) -> None:
    page = admin_client.get(URL)
    [table] = tables_of(page)
    rows = {str(row[0].text): [str(cell.text) for cell in row[1:]] for row in table[1:]}
    per_day, kept, _rows, row_bytes, _now, rest, next_roll = rows["Journal entries"]
    assert per_day == f"{two_days / 2:,.0f}"
    assert (kept, row_bytes) == ("400 days", "210*")
    assert rest == f"{two_days / 2 * 210 * 400 / 1e6:.1f} MB"
    assert (next_roll == "–") == (len(partitions.partitions_of(JournalEntry)) < 2)
    assert rows["Jobs"][1] == "7 days"
    assert rows["Older jobs"][1] == "393 days"
    assert "mean of the last 2 full days" in text_of(page)


def test_page_says_when_the_database_is_full(
    two_days: int, admin_client: Client, settings: Any
) -> None:
    settings.DATABASE_MAX_SIZE = 10**12
    assert "never at this rate" in text_of(admin_client.get(URL))
    settings.DATABASE_MAX_SIZE = storage.database_size() + 100_000
    text = text_of(admin_client.get(URL))
    assert "will soon reach DATABASE_MAX_SIZE" in text
    assert "in 3 days it is full" in text or "in 2 days it is full" in text


def test_pick_up_is_what_workers_can_do_beside_what_was_measured(
    two_days: int, admin_client: Client, frozen_clock: FrozenClock
) -> None:
    factories.worker("host-a:1", capacity=4, running=3, last_heartbeat_at=frozen_clock.instant)
    factories.job()
    text = text_of(admin_client.get(URL))
    assert "1 workers that take jobs" in text
    assert "4 slots, 1 free" in text
    assert "1 s longest wait for a free slot to look" in text
    assert "1 open jobs" in text


def test_sizes_say_what_is_in_the_tables() -> None:
    factories.job()
    found = storage.sizes_of([Job, JournalEntry])
    assert found[Job].rows >= 0
    if connection.vendor == "sqlite":
        assert found[Job] == (1, None, False)
    else:
        assert (found[Job].bytes or 0) > 0
    assert storage.database_size() > 0


def test_page_reads_the_same_however_much_there_is(two_days: int, admin_client: Client) -> None:
    admin_client.get(URL)
    sent = sent_by(lambda: admin_client.get(URL))
    for _ in range(20):
        factories.job()
    assert len(sent_by(lambda: admin_client.get(URL))) == len(sent)
    assert len(sent) <= 25


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_next_roll_is_the_next_boundary(frozen_clock: FrozenClock) -> None:
    unite_archive()
    assert _next_roll() is None
    ROLLING.roll()
    first = partitions.partitions_of(ArchivedJob)[0].end
    assert first is not None
    assert _next_roll() == first
    frozen_clock.move_to(first)
    assert _next_roll() == partitions.partitions_of(ArchivedJob)[1].end
    unite_archive()


def _next_roll() -> datetime | None:
    [found] = [each for each in capacity.capacity().tables if each.model is ArchivedJob]
    return found.next_roll
