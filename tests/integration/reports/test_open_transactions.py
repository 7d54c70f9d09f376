"""G10: transactions that stay open, where the server shows them."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections

from apps.reports.services import fact_sheet
from apps.reports.watches import database
from apps.reports.watches.base import look
from tests.processes import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def found() -> set[str]:
    """The connections with such a transaction."""
    looked = look(database.OPEN_TRANSACTIONS, fact_sheet.read())
    assert looked.unknown is None
    return {each.name for each in looked.findings}


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_g10_finds_a_transaction_that_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own: those of other tests may be open as well."""
    monkeypatch.setattr(database, "LONGEST", timedelta(seconds=-1))
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            [thread] = cursor.fetchone()
            cursor.execute("SELECT COUNT(*) FROM jobs_job")
        # InnoDB renews what it says of transactions when nobody has asked for a tenth of a second.
        eventually(lambda: str(thread) in found(), pause=0.2)
        other.rollback()
        eventually(lambda: str(thread) not in found(), pause=0.2)
    finally:
        other.close()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ((1227, "Access denied; you need the PROCESS privilege"), "PROCESS"),
        ((3854, "Cannot convert string '…' from utf8mb4 to utf8mb3"), "emoji or binary values"),
    ],
)
def test_g10_is_not_known_while_the_server_does_not_show_it(
    error: tuple[int, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: Any) -> Any:
        raise OperationalError(*error)

    monkeypatch.setattr(database, "fetch", refused)
    monkeypatch.setattr(database.connection, "vendor", "mysql", raising=False)
    looked = look(database.OPEN_TRANSACTIONS, fact_sheet.read())
    assert looked.findings == []
    assert looked.unknown is not None
    assert why in looked.unknown


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_g10_is_asked_while_a_transaction_writes_letters_of_four_bytes() -> None:
    """MySQL 9 then refuses to show its transactions, which was an error of each page and metric."""

    def writes() -> None:
        other = connections.create_connection("default")
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM jobs_job")
            cursor.execute("SELECT SLEEP(1), '😀'")
        other.close()

    writer = threading.Thread(target=writes)
    writer.start()
    while writer.is_alive():
        # InnoDB renews what it says of transactions when nobody has asked for a tenth of a second.
        writer.join(0.2)
        assert look(database.OPEN_TRANSACTIONS, fact_sheet.read()).findings == []
