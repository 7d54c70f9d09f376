"""Rows inserted by the many: defaults, conversions, and as few statements as said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from apps.common import rows as rows_module
from apps.common.db import is_mysql
from apps.common.rows import ensure_row, insert_rows, insert_values, update_rows
from apps.dispatch.models import Stock
from apps.jobs.models import Job
from apps.journal.models import JournalEntry

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_insert_rows_fills_defaults_and_converts() -> None:
    rows: list[dict[str, Any]] = [
        {"id": n, "at": "2026-03-02T09:00:00Z", "source": "job", "subject_id": n, "event": "e"}
        for n in (1, 2)
    ]
    rows[1]["source"] = "plan"
    with transaction.atomic():
        insert_rows(JournalEntry, [{**row, "data": {"é": [n]}} for n, row in enumerate(rows)])
    first, second = JournalEntry.objects.order_by("id")
    assert (first.source, first.data, first.attempt, first.reason) == ("job", {"é": [0]}, None, "")
    assert (second.source, second.data) == ("plan", {"é": [1]})


def test_insert_rows_is_one_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        insert_rows(
            Stock, [{"source": "once", "task": n, "occurrence": 0, "handed": 0} for n in range(300)]
        )
    insert_rows(Stock, [])
    assert Stock.objects.count() == 300


def test_rows_that_are_too_long_together_are_written_in_statements_that_are_not(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(rows_module, "MAX_LETTERS", 25)
    made = [
        {"id": n, "at": "2026-03-02T09:00:00Z", "source": "job", "event": "e", "error": "r" * long}
        for n, long in enumerate((1, 60, 1, 1, 9))
    ]
    changes = {n: {"error": letter * 12} for n, letter in enumerate("abcde")}
    with django_assert_num_queries(3):
        insert_rows(JournalEntry, [{**row, "subject_id": 1} for row in made])
    with django_assert_num_queries(3):
        assert update_rows(JournalEntry, changes, guard="event = %s", parameters=["e"]) == 5
    found = JournalEntry.objects.order_by("id").values_list("error", flat=True)
    assert list(found) == [letter * 12 for letter in "abcde"]


def test_values_are_inserted_with_constant_defaults() -> None:
    """I25: what the names leave out has the default of the model."""
    rows = [("once", task, 0) for task in range(300)]
    insert_values(Stock, ("source", "task", "occurrence"), rows)
    insert_values(Stock, ("source", "task", "occurrence"), [])
    found = Stock.objects.order_by("task").values_list("source", "task", "occurrence", "handed")
    assert list(found) == [(*row, 0) for row in rows]


def test_what_all_of_many_rows_share_is_written_once(
    django_assert_num_queries: Callable[..., Any],
) -> None:
    shared = '50 % "of" it\'s \\ é😀'
    names = ("id", "at", "source", "subject_id", "event", "attempt", "reason", "error", "data")
    rows = [
        (n, "2026-03-02 09:00:00.5", "job", 7, "e", None, shared, "r" * n, '{"n": [1.5, "%s"]}')
        for n in range(1, 301)
    ]
    rows[-1] = (*rows[-1][:5], 3, *rows[-1][6:])
    with django_assert_num_queries(1) as queries:
        insert_values(JournalEntry, names, rows)
    # MySQL has no way to.
    assert queries[0]["sql"].count("09:00:00.5") == (len(rows) if is_mysql() else 1)
    found = [*JournalEntry.objects.order_by("id")]
    assert [(each.id, each.error) for each in found] == [(n, "r" * n) for n in range(1, 301)]
    assert {(each.at.microsecond, each.subject_id, each.reason) for each in found} == {
        (500_000, 7, shared)
    }
    assert [each.attempt for each in found] == [None] * 299 + [3]
    assert all(each.data == {"n": [1.5, "%s"]} for each in found)


def test_column_without_a_constant_default_has_to_be_named() -> None:
    with pytest.raises(TypeError, match="has no constant default"):
        insert_values(Job, ("id", "type"), [(1, "mail")])


def test_ensure_row_leaves_an_existing_row_alone() -> None:
    key = {"source": "once", "task": 1, "occurrence": 0}
    ensure_row(Stock, list(key), {**key, "handed": 3})
    ensure_row(Stock, list(key), {**key, "handed": 0})
    assert Stock.objects.get().handed == 3
