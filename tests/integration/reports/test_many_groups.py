"""Very many groups in a long period: all are counted, the busiest with their times."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.reports.services import rows
from apps.reports.services.rollup import roll_up
from apps.reports.services.rows import First
from apps.reports.services.summary import Percentiles, Period, summarise
from apps.reports.services.titles import titles
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.reports.history import COUNTS, entry, utc, write
from tests.pages import tables_of
from tests.statements import parameters_up_to

pytestmark = pytest.mark.django_db
NOW = utc("2026-03-03T13:52:10")
WEEK = Period(NOW - timedelta(days=7), NOW, ZoneInfo("UTC"))
ENDS = [("succeeded", "open", "succeeded"), ("failed", "open", "failed")]


@pytest.fixture(autouse=True)
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


def test_all_are_counted_and_the_busiest_have_times(monkeypatch: pytest.MonkeyPatch) -> None:
    full = summarise("dispatch", "executor", WEEK)
    assert (full.timed, len(full.rows)) == (None, 40)
    monkeypatch.setattr(rows, "MAX_READ", 150)
    found = summarise("dispatch", "executor", WEEK)
    assert counts(found) == counts(full)
    assert found.total == full.total
    assert found.timed is not None
    assert 1 <= found.timed < 30
    assert found.rows[: found.timed] == full.rows[: found.timed]
    assert {row.run for row in found.rows[found.timed :]} == {Percentiles(None, None, None)}


def test_page_has_times_of_the_first_and_csv_of_all(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {"source": "dispatch", "by": "executor", "period": "7d"}
    monkeypatch.setattr(rows, "MAX_READ", 150)
    shown = tables_of(admin_client.get(reverse("report"), query))[0][1:-1]
    assert len(shown) == 40
    assert "–" not in {row[-1].text for row in shown}
    exported = admin_client.get(reverse("report_csv"), query).content.decode("utf-8-sig")
    assert len(exported.splitlines()) == 42


def test_limit_of_very_many_is_counted_by_the_database(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    seen = [f"uid_{n}" for n in range(30)]
    asked = {
        "executor": {"within": seen, "first": First(5)},
        "hour": {"within": seen},
        "day": {"within": seen},
    }
    full = {by: summarise("dispatch", by, WEEK, **how) for by, how in asked.items()}
    monkeypatch.setattr(rows, "MAX_WITHIN", 100)
    monkeypatch.setattr(rows, "MAX_NAMED", 7)
    for by, how in asked.items():
        with django_assert_max_num_queries(20) as queries:
            found = summarise("dispatch", by, WEEK, **how)
        read = [q["sql"] for q in queries.captured_queries if ", wait, run FROM" in q["sql"]]
        assert counts(found) == counts(full[by])
        assert found.names == full[by].names
        assert found.total.total == full[by].total.total > 100
        assert found.total.run == Percentiles(None, None, None) != full[by].total.run
        assert (found.timed, bool(read)) == ((None, True) if by == "executor" else (0, False))
    first = summarise("dispatch", "executor", WEEK, **asked["executor"])
    assert first.rows == full["executor"].rows


def test_titles_of_all_tasks_of_a_file_are_read_in_parts() -> None:
    task = factories.once_task(factories.user(), "Shelf check")
    last = f"once:{task.pk}"
    labels = [*(f"once:{10**9 + number}" for number in range(1_500)), last]
    with parameters_up_to(1_200):
        assert titles(labels) == {last: "Shelf check"}
