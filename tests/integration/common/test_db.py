"""Transactions that are run again, and statements the ORM does not offer."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    OperationalError,
    connection,
    transaction,
)

from apps.common import db
from apps.common.db import execute_all, fetch, fetch_each, table, transactional
from apps.common.models import SweepLease
from apps.dispatch.models import Dispatch

pytestmark = pytest.mark.both

DEADLOCK = (
    OperationalError(1213, "Deadlock found when trying to get lock"),
    OperationalError("database is locked"),
)


def deadlock() -> OperationalError:
    return DEADLOCK[0] if connection.vendor == "mysql" else DEADLOCK[1]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.common.db.time.sleep", lambda seconds: None)


class Work:
    """Writes a row, then fails as often as asked."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.runs = 0

    @transactional
    def run(self) -> str:
        self.runs += 1
        SweepLease.objects.create(name=f"run-{self.runs}")
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.django_db(transaction=True)
def test_lost_lock_runs_the_whole_transaction_again() -> None:
    """F10: whole transactions, nothing of the failed tries remains."""
    work = Work(deadlock(), deadlock())
    assert work.run() == "done"
    assert work.runs == 3
    assert [row.name for row in SweepLease.objects.all()] == ["run-3"]


@pytest.mark.django_db(transaction=True)
def test_gives_up_after_five_tries() -> None:
    work = Work(*[deadlock() for _ in range(9)])
    with pytest.raises(OperationalError):
        work.run()
    assert work.runs == 5
    assert not SweepLease.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "error", [ValueError("x"), IntegrityError("twice"), OperationalError(2013, "Lost connection")]
)
def test_other_errors_are_not_repeated(error: Exception) -> None:
    """A lost connection says nothing about the commit, so the caller decides."""
    work = Work(error)
    with pytest.raises(type(error)):
        work.run()
    assert work.runs == 1


@pytest.mark.django_db(transaction=True)
def test_inside_a_callers_transaction_only_the_caller_repeats() -> None:
    work = Work(deadlock())
    with pytest.raises(OperationalError), transaction.atomic():
        work.run()
    assert work.runs == 1


def test_which_errors_are_a_lost_lock(subtests: pytest.Subtests) -> None:
    for error, again in [
        (DEADLOCK[0], "mysql"),
        (OperationalError(1205, "Lock wait timeout exceeded"), "mysql"),
        (OperationalError(1020, "Record has changed since last read"), "mysql"),
        (OperationalError(2006, "Server has gone away"), ""),
        (DEADLOCK[1], "sqlite"),
        (OperationalError("disk I/O error"), ""),
        (DatabaseError(), ""),
        (ValueError("database is locked"), ""),
    ]:
        with subtests.test(error=error):
            assert db.is_retryable(error) is (again == connection.vendor)


@pytest.mark.django_db
def test_numbers_that_the_database_made_are_those_of_python() -> None:
    """Sums, and what a UNION mixes with NULL, are decimals in MariaDB."""
    for n in (1, 2):
        SweepLease.objects.create(name=f"{n}", position={"n": n})
    leases = db.table(SweepLease)
    columns = ("3, NULL", "NULL, 3")
    mixed = [(f"SELECT {each} FROM {leases} LIMIT %s", [1]) for each in columns]
    [numbers] = db.fetch(f"SELECT SUM(LENGTH(name)), AVG(LENGTH(name)), COUNT(*) FROM {leases}")

    assert [(value, type(value)) for value in numbers] == [(2, int), (1.0, float), (2, int)]
    assert {type(value) for row in fetch_each(mixed) for value in row} == {int, type(None)}


@pytest.mark.django_db
def test_vendor_index_exists_where_it_belongs() -> None:
    """The expiry sweep has its index on both: whole on MariaDB, partial on SQLite."""
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, Dispatch._meta.db_table)
    mine = {"dispatch_expiry", "dispatch_expiry_open"} & set(constraints)
    assert mine == (
        {"dispatch_expiry"} if connection.vendor == "mysql" else {"dispatch_expiry_open"}
    )


@pytest.mark.django_db
def test_keys_differ_by_case_accent_and_blank() -> None:
    """Identity does not depend on the database's collation."""
    for name in ("a", "A", "á"):
        SweepLease.objects.create(name=name)
    assert SweepLease.objects.filter(name="A").count() == 1
    assert SweepLease.objects.count() == 3


@pytest.mark.django_db
def test_selects_are_joined_into_as_few_statements_as_the_database_takes(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    parts = [("SELECT %s, %s", (number, -number)) for number in range(7)]
    rows = [(number, -number) for number in range(7)]
    with django_assert_num_queries(1):
        assert list(fetch_each(parts)) == rows
    monkeypatch.setattr(db, "_PARTS_AT_ONCE", 3)
    with django_assert_num_queries(3):
        assert list(fetch_each(iter(parts))) == rows
    monkeypatch.setattr(db, "_PARAMETERS_AT_ONCE", 5)
    with django_assert_num_queries(4):
        assert list(fetch_each(parts)) == rows
    with django_assert_num_queries(0):
        assert list(fetch_each([])) == []


@pytest.mark.django_db(transaction=True)
def test_statements_together_are_all_done_or_none(subtests: pytest.Subtests) -> None:
    """Whatever fails, the connection is of use afterwards, and nothing is open or locked."""
    insert = f"INSERT INTO {table(SweepLease)} (name, holder, fence) VALUES (%s, '', %s)"
    execute_all([(insert, ["a", 1]), (insert, ["50 %", 2])])
    kept = [("50 %",), ("a",)]
    # One number is in use, the other is too large for the server, or already for SQLite's driver.
    for values, error in {
        ("a", 3): IntegrityError,
        ("b", 2**64): (DataError, OverflowError),
    }.items():
        refused = (insert, values)
        for many in ([refused], [(insert, ["c", 3]), refused], [refused, (insert, ["c", 3])]):
            with subtests.test(refused=refused, many=len(many)), pytest.raises(error):
                execute_all(many)
            assert fetch(f"SELECT name FROM {table(SweepLease)} ORDER BY name") == kept
            with transaction.atomic():
                assert SweepLease.objects.filter(name="a").update(fence=9) == 1


@pytest.mark.django_db(transaction=True)
def test_statements_together_are_part_of_the_transaction_around_them() -> None:
    insert = f"INSERT INTO {table(SweepLease)} (name, holder, fence) VALUES (%s, '', %s)"
    with transaction.atomic():
        execute_all([(insert, ["a", 1]), (insert, ["b", 1])])
        with pytest.raises(IntegrityError):
            execute_all([(insert, ["c", 1]), (insert, ["a", 1])])
        assert SweepLease.objects.count() == 2
        transaction.set_rollback(True)
    assert not SweepLease.objects.exists()
