"""Very many groups in a long period: all are counted, the busiest told how long they took."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.reports.services import summary
from apps.reports.services.rollup import roll_up
from apps.reports.services.summary import Percentiles, Period, summarise
from tests.frozen import FrozenClock
from tests.integration.reports.history import COUNTS, entry, utc, write
from tests.pages import tables_of

pytestmark = pytest.mark.django_db
NOW = utc("2026-03-03T13:52:10")
WEEK = Period(NOW - timedelta(days=7), NOW, ZoneInfo("UTC"))
ENDS = [("succeeded", "open", "succeeded"), ("failed", "open", "failed")]


@pytest.fixture
def crowd(frozen_clock: FrozenClock) -> None:
    """Forty people, some of them much busier than others."""
    frozen_clock.move_to(NOW)
    chance = random.Random(7)
    write(
        *(
            entry(
                NOW - timedelta(minutes=3, seconds=chance.random() * 500_000),
                "dispatch",
                kind=chance.choice(ENDS),
                executor=f"uid_{int(40 * chance.random() ** 2)}",
                type_or_task="once:1",
                run_ms=chance.randrange(90_000),
            )
            for _ in range(700)
        )
    )
    roll_up(until=clock.now() + timedelta(minutes=5))


def counts(found: Any) -> list[Any]:
    return [(row.group, row.total, *(getattr(row, name) for name in COUNTS)) for row in found.rows]


def test_all_are_counted_and_the_busiest_told_how_long(
    crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = summarise("dispatch", "executor", WEEK)
    assert (full.timed, len(full.rows)) == (None, 40)
    monkeypatch.setattr(summary, "MOST_READ", 150)
    found = summarise("dispatch", "executor", WEEK)
    assert counts(found) == counts(full)
    assert found.total == full.total
    assert found.timed is not None
    assert 1 <= found.timed < 30
    assert found.rows[: found.timed] == full.rows[: found.timed]
    assert {row.run for row in found.rows[found.timed :]} == {Percentiles(None, None, None)}


def test_page_tells_the_first_how_long_and_csv_has_them_all(
    admin_client: Client, crowd: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {"source": "dispatch", "by": "executor", "period": "7d"}
    monkeypatch.setattr(summary, "MOST_READ", 150)
    rows = tables_of(admin_client.get(reverse("report"), query))[0][1:-1]
    assert len(rows) == 40
    assert "–" not in {row[-1].text for row in rows}
    exported = admin_client.get(reverse("report_csv"), query).content.decode()
    assert len(exported.splitlines()) == 42
