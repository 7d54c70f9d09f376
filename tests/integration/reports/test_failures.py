"""Errors in groups: what is stored and read is what raw entries add up to, however they came."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import ids
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from apps.reports.models import ErrorGroup
from apps.reports.services import rollup
from apps.reports.services.failures import BY_COUNT, NEW, NEWEST, Failure, failures
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import entry, stored, utc, write

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

NOW = utc("2026-03-30T12:34:56")
CLOSED = utc("2026-03-30T12:34:00")
FAILED, AGAIN = ("failed", "running", "failed"), ("failed", "running", "scheduled")
LOST = ("lost", "running", "ready")
HEAD = "Traceback (most recent call last):\n  File 'x', line {}\n"
REFUSED = HEAD + "ConnectionRefusedError: 10.0.0.{}:5432"
ERRORS = (REFUSED, "ValueError: no such shop", "TimeoutError: after {}.{} s")


def failure(at: datetime, error: str = REFUSED, type_: str = "mail", **fields: Any) -> JournalEntry:
    fields = {"kind": FAILED, **fields}
    made = entry(at, type_or_task=type_, error=error, error_key=error_key(error), **fields)
    made.subject_id = made.id + 1
    return made


def drawn(count: int, start: datetime, end: datetime, seed: int) -> list[JournalEntry]:
    chance = random.Random(seed)
    seconds = (end - start).total_seconds()
    return [
        failure(
            start + timedelta(seconds=chance.random() * seconds),
            chance.choice(ERRORS).format(chance.randint(1, 99), chance.randint(1, 99)),
            chance.choice(("mail", "mail:in", "sms")),
            kind=chance.choice((FAILED, AGAIN)),
        )
        for _ in range(count)
    ]


def group_of(each: JournalEntry) -> tuple[str, str, str]:
    return each.source, each.type_or_task, each.error_key


def last(length: timedelta, **narrowed: Any) -> dict[tuple[str, str, str], Failure]:
    found = failures(NOW - length, NOW, steps=24, limit=100, **narrowed)
    assert found.as_of == CLOSED
    return {(each.source, each.type_or_task, each.error_key): each for each in found.groups}


def test_groups_of_a_period_are_what_raw_entries_add_up_to(subtests: pytest.Subtests) -> None:
    write(*drawn(300, NOW - timedelta(days=40), NOW, 1))
    lengths = [timedelta(hours=1), timedelta(hours=24), timedelta(days=7), timedelta(days=30)]
    for seed, length in enumerate(lengths, start=2):
        write(*drawn(150, CLOSED - length, CLOSED, seed))
    # Neither of these is an error of something that ended.
    write(entry(NOW - timedelta(minutes=5)), entry(NOW - timedelta(minutes=5), kind=LOST))
    roll_up()
    everything = list(JournalEntry.objects.exclude(error_key="").order_by("id"))
    for length, type_ in product(lengths, ["", "mail"]):
        with subtests.test(length=length, type_=type_):
            found = last(length, type_or_task=type_)

            start = failures(NOW - length, NOW, steps=24, limit=1).start
            inside = [
                each
                for each in everything
                if start <= ids.made_at(each.id) < CLOSED and type_ in ("", each.type_or_task)
            ]
            totals = {group: figures.total for group, figures in found.items()}
            assert totals == Counter(map(group_of, inside))
            for group, figures in found.items():
                mine = [each for each in everything if group_of(each) == group and each.at < CLOSED]
                ended = [each for each in inside if group_of(each) == group]
                assert figures.final == sum(each.to_state == "failed" for each in ended)
                assert sum(figures.trend) == figures.total
                seen = tuple(ids.made_at(mine[at].id) for at in (0, -1))
                assert (figures.first_seen, figures.last_seen) == seen
                assert figures.subject_id == mine[-1].subject_id
                assert figures.sample == mine[-1].error_line


def test_trend_shows_when() -> None:
    write(*(failure(NOW - timedelta(minutes=30 + second / 60)) for second in range(5)))
    write(failure(NOW - timedelta(hours=23)), failure(NOW - timedelta(minutes=30), "Other"))
    roll_up()
    figures = last(timedelta(hours=24))["job", "mail", error_key(REFUSED)]
    assert (figures.trend[-1], figures.trend[1], figures.total) == (5, 1, 6)


def test_first_groups_are_complete_and_all_are_counted(subtests: pytest.Subtests) -> None:
    write(*drawn(40, NOW - timedelta(days=3), CLOSED, 4))
    roll_up()
    start = NOW - timedelta(days=2)
    for order, key in [
        (BY_COUNT, lambda each: (each.total, each.last_seen)),
        (NEWEST, lambda each: each.last_seen),
        (NEW, lambda each: each.first_seen),
    ]:
        every = failures(start, NOW, steps=24, limit=100, order=order)
        assert list(every.groups) == sorted(every.groups, key=key, reverse=True)
        for limit in [1, 2, 5]:
            with subtests.test(order=order, limit=limit):
                found = failures(start, NOW, steps=24, limit=limit, order=order)
                assert found.groups == every.groups[:limit]
                assert found.count == every.count == len(every.groups) == 9
                assert found.total == every.total == sum(each.total for each in every.groups)


def test_what_has_been_forgotten_is_only_counted() -> None:
    write(failure(NOW - timedelta(minutes=5)), failure(NOW - timedelta(minutes=5), "Other"))
    roll_up()
    ErrorGroup.objects.filter(error_key=error_key("Other")).delete()
    found = failures(NOW - timedelta(hours=1), NOW, steps=20, limit=5)
    assert [each.error_key for each in found.groups] == [error_key(REFUSED)]
    assert (found.count, found.total) == (2, 2)


def test_adding_up_again_widens_and_never_counts_twice() -> None:
    write(*drawn(60, NOW - timedelta(hours=3), CLOSED, 3))
    roll_up()
    before = stored(), list(ErrorGroup.objects.order_by("id").values_list())
    assert list(rollup.rebuild(NOW - timedelta(days=1), NOW))
    assert (stored(), list(ErrorGroup.objects.order_by("id").values_list())) == before


def test_what_came_late_begins_the_group_earlier_and_keeps_its_newest_sample() -> None:
    late = NOW - timedelta(minutes=8)
    write(failure(NOW - timedelta(minutes=2), "Refused by 7"))
    roll_up()
    write(failure(late, "Refused by 12"))
    list(rollup.rebuild(NOW - timedelta(hours=1), NOW))
    group = ErrorGroup.objects.get()
    assert ids.made_at(group.first_entry) == late
    assert group.sample == "Refused by 7"
    assert last(timedelta(hours=1))["job", "mail", error_key("Refused by 1")].total == 2


def test_attempts_that_nobody_reported_read_as_their_reason() -> None:
    reason = "its worker went offline"
    at = NOW - timedelta(minutes=3)
    write(entry(at, kind=LOST, reason=reason, error_key=error_key(reason)))
    roll_up()
    assert ErrorGroup.objects.get().sample == reason


def test_sample_is_the_line_that_names_the_error() -> None:
    table = (
        ("a.Error: no shop\n(Background on this error at: x)", None, "a.Error: no shop"),
        ("log of 7:\nE4", {"summary": "E4: disk full"}, "E4: disk full"),
    )
    at = NOW - timedelta(minutes=3)
    write(*(failure(at, text, type_=line, data=data) for text, data, line in table))
    roll_up()
    samples = dict(ErrorGroup.objects.values_list("type_or_task", "sample"))
    assert samples == {line: line for _text, _data, line in table}
