"""Errors without end: the number of groups is limited, the rest is counted together."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.journal.models import JournalEntry
from apps.reports.models import ErrorGroup, RollupBucket
from apps.reports.rules import tally
from apps.reports.rules.coverage import DAY, EIGHT_DAYS, LEVELS
from apps.reports.services import error_groups
from apps.reports.services.entries import read_one
from apps.reports.services.failures import failures
from apps.reports.services.totals import rows_of, stored_rows
from tests.frozen import FrozenClock
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import entry, utc, write
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = utc("2026-03-30T12:34:56")
FAILED = ("failed", "running", "failed")


@pytest.fixture(autouse=True)
def now(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    monkeypatch.setattr(tally, "MAX_ERRORS", 3)
    frozen_clock.move_to(NOW)
    return frozen_clock


def fail(days: float, count: int, *, kinds: int = 12) -> None:
    """Failures of the last days, most of them of a few kinds; of two types."""
    chance = random.Random(count)
    write(
        *(
            entry(
                NOW - timedelta(days=days * chance.random(), minutes=2),
                kind=FAILED,
                type_or_task=chance.choice(("mail", "sms")),
                error=f"E{number}",
                error_key=f"{number:032x}",
                run_ms=chance.randrange(10_000),
            )
            for number in (int(kinds * chance.random() ** 2) for _ in range(count))
        )
    )


def test_sums_of_parts_are_what_the_journal_adds_up_to_at_once() -> None:
    fail(20, 400)
    roll_up()
    largest = dict.fromkeys(LEVELS, 0)
    for level, start in RollupBucket.objects.filter(entries__gt=0).values_list("level", "start"):
        counted = set(rows_of(level, start, read_one(start, start + level).tallies(level)))
        assert counted == set(stored_rows(level, start))
        for type_ in ("mail", "sms"):
            own = [row for row in counted if row[2] == "error" and row[4].startswith(f"{type_}:")]
            largest[level] = max(largest[level], len(own))
            ended = [row for row in counted if row[2:5] == ("type", start, type_)]
            assert sum(row[5] for row in own) == sum(row[5] for row in ended)
    limited = {level: count for level, count in largest.items() if level in tally.CAPPED}
    assert max(limited.values()) == largest[DAY] == 4
    # Eight times those of a day, without another limit.
    assert largest[EIGHT_DAYS] > 4


def test_most_frequent_error_is_shown_and_the_rest_is_counted(admin_client: Client) -> None:
    fail(0.9, 300)
    roll_up()
    found = failures(NOW - timedelta(days=1), NOW, steps=24, limit=100)
    assert sum(each.total for each in found.groups) == 300
    rest = [each for each in found.groups if each.error_key == tally.OTHER]
    assert {each.type_or_task for each in rest} == {"mail", "sms"}
    assert all(each.first_seen < each.last_seen <= NOW for each in rest)
    frequent = [each for each in found.groups if each.error_key == f"{0:032x}"]
    assert max(each.total for each in found.groups if each.sample) in {e.total for e in frequent}

    page = admin_client.get(reverse("failures"))
    assert text_of(page).count("Other errors (too many to list)") == 2
    html = page.content.decode()
    assert "/admin/jobs/job/?type=mail&amp;status=failed" in html
    assert "error_key=other" not in html


def test_the_rest_is_seen_within_days_however_long_the_period() -> None:
    # Before the eight days in which the others begin.
    early = entry(NOW - timedelta(days=28), kind=FAILED, type_or_task="push", error="E")
    write(early)
    fail(20, 600)
    roll_up()
    assert RollupBucket.objects.filter(level=EIGHT_DAYS, entries__gt=0).exists()
    found = failures(NOW - timedelta(days=30), NOW, steps=30, limit=100)
    assert sum(each.total for each in found.groups) == found.total == 600
    entries = JournalEntry.objects.order_by("at")
    for rest in (each for each in found.groups if each.error_key == tally.OTHER):
        own = list(entries.filter(type_or_task=rest.type_or_task).values_list("at", flat=True))
        assert rest.first_seen >= own[0].replace(hour=0, minute=0, second=0, microsecond=0)
        assert rest.first_seen < own[0] + timedelta(days=2)
        assert own[-1] - timedelta(days=2) < rest.last_seen <= own[-1]
        assert sum(rest.trend) == rest.total


def test_errors_that_are_never_distinguished_are_no_groups(now: FrozenClock) -> None:
    made = NOW - timedelta(hours=1)
    write(
        *(
            entry(made, kind=FAILED, error=f"E{number}", error_key=f"{number:032x}")
            for number in [*range(40), 7, 7, 8]
        )
    )
    roll_up()
    keys = set(ErrorGroup.objects.values_list("error_key", flat=True))
    assert keys == {f"{number:032x}" for number in (7, 8, 0)}


def test_errors_seen_longest_ago_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(error_groups, "MAX_KEPT", 5)
    write(
        *(
            entry(NOW - timedelta(hours=9 - n), kind=FAILED, error=f"E{n}", error_key=f"{n:032x}")
            for n in range(9)
        )
    )
    roll_up()
    keys = set(ErrorGroup.objects.values_list("error_key", flat=True))
    assert keys == {f"{n:032x}" for n in range(4, 9)}
    found = failures(NOW - timedelta(days=1), NOW, steps=24, limit=100)
    assert (len(found.groups), found.count, found.total) == (5, 9, 9)


def test_errors_that_were_long_not_seen_are_forgotten(now: FrozenClock, settings: Any) -> None:
    settings.REPORT_ERRORS_KEPT = timedelta(days=9)
    fail(0.1, 30)
    roll_up()
    count = ErrorGroup.objects.count()
    assert count > 3
    now.advance(days=1)
    fresh = entry(now.instant - timedelta(minutes=3), kind=FAILED, error="E", error_key="f" * 32)
    write(fresh)
    roll_up()
    assert ErrorGroup.objects.count() == count + 1

    now.move_to(NOW + timedelta(days=9))
    roll_up()
    assert list(ErrorGroup.objects.values_list("error_key", flat=True)) == ["f" * 32]
