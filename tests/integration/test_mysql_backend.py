"""The connection to MariaDB: few round trips, and transactions and broken connections as ever."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import MySQLdb
import pytest
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.access.models import ApiClient
from apps.common.db import Unchanged, conclude, execute, fetch, send, table
from apps.dispatch.models import Source, Stock
from taskplatform.mysql import base

CREATED = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


def _asked(sql: str, *parameters: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return str(cursor.fetchone()[1])


def _questions() -> int:
    return int(_asked("SHOW SESSION STATUS LIKE 'Questions'"))


def _client(name: str) -> None:
    ApiClient.objects.create(name=name, client_id=name, secret_hash="x", created_at=CREATED)


def _kill() -> None:
    """As a server that ends, or a firewall that forgets the connection."""
    wrapper = connection.settings_dict
    other = MySQLdb.connect(
        host=wrapper["HOST"],
        port=int(wrapper["PORT"]),
        user=wrapper["USER"],
        passwd=wrapper["PASSWORD"],
    )
    with other.cursor() as cursor:
        cursor.execute("KILL %s", (connection.connection.thread_id(),))
    other.close()


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the backend; tests move it."""
    now = [1000.0]
    monkeypatch.setattr(base, "monotonic", lambda: now[0])
    return now


def test_a_transaction_costs_two_questions_beside_its_statements() -> None:
    before = _questions()
    with transaction.atomic():
        _client("one")
    # BEGIN, INSERT, COMMIT and the question itself.
    assert _questions() - before == 4


def test_what_is_rolled_back_never_was_and_the_next_statement_stands_alone() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _client("undone")
        raise ZeroDivisionError
    _client("alone")
    connection.close()
    assert list(ApiClient.objects.values_list("name", flat=True)) == ["alone"]


def test_others_see_a_transaction_only_when_it_is_committed() -> None:
    with transaction.atomic():
        _client("late")
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM access_apiclient")
            assert cursor.fetchone() == (0,)
        _client("later")
    with other.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM access_apiclient")
        assert cursor.fetchone() == (2,)
    other.close()


def test_a_savepoint_is_undone_alone() -> None:
    with transaction.atomic():
        _client("kept")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            _client("undone")
            raise ZeroDivisionError
    assert list(ApiClient.objects.values_list("name", flat=True)) == ["kept"]


def test_a_transaction_begins_with_its_first_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()
    sent: list[bytes] = []
    monkeypatch.setattr(base.Connection, "query", _noting(sent, base.Connection.query))
    with transaction.atomic():
        assert fetch("SELECT 1") == [(1,)]
        assert fetch("SELECT 2") == [(2,)]
    fetch("SELECT 3")
    assert sent == [b"BEGIN; SELECT 1", b"SELECT 2", b"SELECT 3"]


def _noting(sent: list[bytes], run: Any) -> Any:
    def query(driver: base.Driver, text: bytes) -> None:
        sent.append(text)
        run(driver, text)

    return query


def test_a_transaction_without_statements_asks_nothing() -> None:
    before = _questions()
    with transaction.atomic():
        pass
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        raise ZeroDivisionError
    # The question itself.
    assert _questions() - before == 1


STOCK = {"source": "once", "task": 7, "occurrence": 0}


def test_statements_sent_together_are_counted_one_by_one() -> None:
    begin, take = Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=2)
    assert [changed for _, changed in send(begin, take, take)] == [1, 1, 0]
    assert Stock.objects.get().handed == 2


def test_the_first_statement_that_fails_is_the_last() -> None:
    begin, take = Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=None)
    with pytest.raises(IntegrityError):
        send(begin, begin, take)
    assert Stock.objects.get().handed == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        send(take, take, begin)
    assert Stock.objects.get().handed == 1


def test_a_refused_value_is_an_integrity_error() -> None:
    """MariaDB calls it an operational one, which would be tried again."""
    send(Stock.beginning(**STOCK))
    with pytest.raises(IntegrityError):
        execute(f"UPDATE {table(Stock)} SET handed = handed - 2")


def test_who_looks_on_sees_each_statement() -> None:
    begin, take = Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=2)
    with CaptureQueriesContext(connection) as seen:
        send(begin, take, take)
    assert [query["sql"][:6] for query in seen.captured_queries] == ["INSERT", "UPDATE", "UPDATE"]


def _sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What goes to the server from now on."""
    connection.ensure_connection()
    # Which server it is, a process asks once.
    assert connection.mysql_is_mariadb
    sent: list[bytes] = []
    monkeypatch.setattr(base.Connection, "query", _noting(sent, base.Connection.query))
    return sent


def test_the_last_changes_and_the_commit_are_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = _sent(monkeypatch)
    with transaction.atomic():
        fetch("SELECT 1")
        conclude([Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=2)])
    assert len(sent) == 2
    connection.close()
    assert Stock.objects.get().handed == 2


def test_what_they_have_made_can_be_read_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = _sent(monkeypatch)
    read = (f"SELECT handed FROM {table(Stock)} WHERE task = %s", [7])
    with transaction.atomic():
        assert list(conclude([Stock.beginning(**STOCK)], answer=read)) == [(1,)]
    assert len(sent) == 1
    assert fetch("SELECT 7") == [(7,)]
    connection.close()
    assert Stock.objects.get().handed == 1


def test_an_insert_that_selects_nothing_takes_all_back() -> None:
    sql = (
        f"INSERT INTO {table(Stock)} (source, task, occurrence, handed) "
        f"SELECT 'once', 8, 0, 1 FROM {table(Stock)} WHERE task = %s"
    )
    with pytest.raises(Unchanged), transaction.atomic():
        conclude([Stock.beginning(**STOCK), (sql, [9])])
    assert not Stock.objects.exists()


def test_after_them_the_connection_stands_alone_again() -> None:
    with transaction.atomic():
        conclude([Stock.beginning(**STOCK)])
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        _client("undone")
        raise ZeroDivisionError
    with transaction.atomic():
        _client("kept")
    connection.close()
    assert list(ApiClient.objects.values_list("name", flat=True)) == ["kept"]


def test_who_was_interrupted_after_its_commit_swallows_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), transaction.atomic():
        conclude([Stock.beginning(**STOCK)])
        monkeypatch.setattr(connection, "commit", interrupted)
    monkeypatch.undo()
    with transaction.atomic():
        _client("kept")
    connection.close()
    assert list(ApiClient.objects.values_list("name", flat=True)) == ["kept"]


def test_a_needed_change_that_finds_no_row_takes_all_back() -> None:
    with pytest.raises(Unchanged), transaction.atomic():
        _client("undone")
        conclude([Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=1)])
    assert not Stock.objects.exists()
    assert not ApiClient.objects.exists()


def test_a_change_besides_may_find_no_row() -> None:
    with transaction.atomic():
        conclude([Stock.beginning(**STOCK)], [Stock.giving_back("once", 8, 0)])
    assert Stock.objects.get().handed == 1


def test_a_key_that_exists_takes_all_back() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        conclude([Stock.beginning(**STOCK), Stock.beginning(**STOCK)])
    assert not Stock.objects.exists()


def test_within_a_transaction_of_somebody_else_nothing_is_committed() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        with transaction.atomic():
            conclude([Stock.beginning(**STOCK)])
        with pytest.raises(Unchanged), transaction.atomic():
            conclude([Stock.taking(**STOCK, at_most=1)])
        assert Stock.objects.get().handed == 1
        raise ZeroDivisionError
    assert not Stock.objects.exists()


def test_a_connection_lost_before_the_last_changes_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        _client("undone")
        _kill()
        conclude([Stock.beginning(**STOCK)])
    request_finished.send(None)
    request_started.send(None)
    assert not ApiClient.objects.exists()
    with transaction.atomic():
        conclude([Stock.beginning(**STOCK)])
    assert Stock.objects.get().handed == 1


def test_who_looks_on_sees_the_last_changes_one_by_one() -> None:
    with CaptureQueriesContext(connection) as seen, transaction.atomic():
        conclude([Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=2)])
    words = [query["sql"].split()[0] for query in seen.captured_queries]
    assert words == ["INSERT", "UPDATE", "COMMIT"]


def test_mysql_which_has_no_such_blocks_is_sent_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = _sent(monkeypatch)
    monkeypatch.setitem(vars(connection), "mysql_is_mariadb", False)
    with transaction.atomic():
        conclude([Stock.beginning(**STOCK), Stock.taking(**STOCK, at_most=2)])
    assert len(sent) == 1
    with pytest.raises(Unchanged), transaction.atomic():
        conclude([Stock.taking(**STOCK, at_most=2)])
    assert Stock.objects.get().handed == 2


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        'it\'s "quoted" \\ and % and %s',
        "line\nbreak\0nul\x1a",
        "货架 🧺 ßé",
        Source.ONCE,
        0,
        -7,
        2**63 - 1,
        True,
        False,
        None,
        Decimal("1.50"),
        1.25,
        b"bytes",
    ],
)
def test_values_arrive_as_they_were(value: Any) -> None:
    [(ours,)] = fetch("SELECT %s", [value])
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s", [value])
        [(djangos,)] = cursor.fetchall()
    assert ours == djangos


def test_instants_arrive_as_they_were() -> None:
    at = datetime(2026, 3, 2, 9, 30, 15, 70, tzinfo=timezone(timedelta(hours=8)))
    [(stored,)] = fetch("SELECT CAST(%s AS DATETIME(6))", [at])
    assert stored == at.astimezone(UTC).replace(tzinfo=None)
    assert fetch("SELECT CAST('2026-03-02 01:30:15' AS DATETIME)") == [
        (datetime(2026, 3, 2, 1, 30, 15),)
    ]


def test_an_instant_that_never_was_is_none() -> None:
    """Other programs may have left 0000-00-00 in their tables."""
    execute("SET SESSION sql_mode = ''")
    try:
        assert fetch("SELECT CAST('0000-00-00 00:00:00' AS DATETIME)") == [(None,)]
    finally:
        connection.close()


def test_a_statement_in_a_broken_transaction_is_refused() -> None:
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic(savepoint=False):
            send(*[Stock.beginning(**STOCK)] * 2)
        with pytest.raises(transaction.TransactionManagementError):
            fetch("SELECT 1")


def _pings() -> int:
    return int(_asked("SHOW SESSION STATUS LIKE 'Com_admin_commands'"))


def test_a_request_soon_after_another_does_not_ping(monotonic: list[float]) -> None:
    before = _pings()
    for _ in range(3):
        monotonic[0] += 0.9
        request_started.send(None)
        ApiClient.objects.count()
        request_finished.send(None)
    assert _pings() == before


def test_a_request_after_a_pause_pings_once(monotonic: list[float]) -> None:
    before = _pings()
    monotonic[0] += 1.1
    request_started.send(None)
    ApiClient.objects.count()
    assert _pings() == before + 1


def test_a_connection_lost_while_idle_is_replaced_unnoticed(monotonic: list[float]) -> None:
    ApiClient.objects.count()
    request_finished.send(None)
    _kill()
    monotonic[0] += 1.1
    request_started.send(None)
    assert ApiClient.objects.count() == 0


@pytest.mark.parametrize("lost", [ApiClient.objects.count, lambda: fetch("SELECT 1")])
def test_a_connection_lost_at_work_fails_one_request(
    monotonic: list[float], lost: Callable[[], object]
) -> None:
    ApiClient.objects.count()
    request_finished.send(None)
    _kill()
    request_started.send(None)
    with pytest.raises(OperationalError):
        lost()
    request_finished.send(None)
    request_started.send(None)
    assert ApiClient.objects.count() == 0


def test_transaction_that_falls_silent_is_ended_by_the_server() -> None:
    """As of a machine that lost its power: what it has locked, others need."""
    silent = connection.copy()
    options = silent.settings_dict["OPTIONS"]
    limit = f"={settings.SILENT_TRANSACTION_SECONDS} "
    assert limit in options["init_command"]
    options["init_command"] = options["init_command"].replace(limit, "=1 ")
    _client("a")
    renaming = f"UPDATE {table(ApiClient)} SET name = %s WHERE client_id = 'a'"
    silent.set_autocommit(False)
    with silent.cursor() as cursor:
        cursor.execute(renaming, ["by the silent"])

        assert execute(renaming, ["by others"]) == 1

        with pytest.raises(OperationalError):
            cursor.execute("SELECT 1")
    silent.close()
    assert ApiClient.objects.get().name == "by others"
