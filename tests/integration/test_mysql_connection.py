"""The settings of the connection to MariaDB, and raw statements over it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import MySQLdb
import pytest
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.db import IntegrityError, OperationalError, connection

from apps.access.models import ApiClient
from apps.common import connections
from apps.common.db import execute, fetch, table
from apps.dispatch.models import Source, Stock

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


def test_a_value_that_a_check_refuses_is_an_integrity_error() -> None:
    """MariaDB calls it an operational one, which would be tried again."""
    Stock.objects.begin("once", 7, 0)
    with pytest.raises(IntegrityError):
        execute(f"UPDATE {table(Stock)} SET handed = handed - 2")


@pytest.mark.parametrize(
    "value",
    [
        "",
        'it\'s "quoted" \\ and % and %s',
        "line\nbreak\0nul\x1a",
        "货架 🧺 ßé",
        Source.ONCE,
        -7,
        2**63 - 1,
        None,
        Decimal("1.50"),
        1.25,
    ],
)
def test_values_arrive_as_they_were(value: Any) -> None:
    assert fetch("SELECT %s", [value]) == [(value,)]


def test_instants_arrive_as_they_were() -> None:
    at = datetime(2026, 3, 2, 9, 30, 15, 70, tzinfo=timezone(timedelta(hours=8)))
    [(stored,)] = fetch("SELECT CAST(%s AS DATETIME(6))", [at])
    assert stored == at.astimezone(UTC).replace(tzinfo=None)


def test_a_connection_that_got_lost_while_idle_is_replaced_unnoticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "RECENT_SECONDS", 0.0)
    ApiClient.objects.count()
    request_finished.send(None)
    _kill()
    request_started.send(None)
    assert ApiClient.objects.count() == 0


def test_a_connection_lost_at_once_after_its_use_costs_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not checked again that soon."""
    monkeypatch.setattr(connections, "RECENT_SECONDS", 3600.0)
    # Django's test client connects its receiver anew, and so behind ours.
    request_started.disconnect(dispatch_uid="common.connections")
    request_started.connect(connections.trust_recent, dispatch_uid="common.connections")
    ApiClient.objects.count()
    request_finished.send(None)
    _kill()
    request_started.send(None)
    with pytest.raises(OperationalError):
        ApiClient.objects.count()
    request_finished.send(None)
    request_started.send(None)
    assert ApiClient.objects.count() == 0


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


def test_transaction_that_falls_silent_is_ended_by_the_server() -> None:
    """As of a machine that lost its power: what it has locked, others need."""
    if not fetch("SHOW VARIABLES LIKE 'idle_transaction_timeout'"):
        # MySQL knows no such limit.
        assert not connection.mysql_is_mariadb  # type: ignore[attr-defined]
        return
    silent = connection.copy()
    options = silent.settings_dict["OPTIONS"]
    limit = f"={settings.IDLE_TRANSACTION_SECONDS} "
    assert limit in options["init_command"]
    options["init_command"] = options["init_command"].replace(limit, "=1 ")
    created_at = datetime(2026, 1, 1, tzinfo=UTC)
    ApiClient.objects.create(name="a", client_id="a", secret_hash="x", created_at=created_at)
    renaming = f"UPDATE {table(ApiClient)} SET name = %s WHERE client_id = 'a'"
    silent.set_autocommit(False)
    with silent.cursor() as cursor:
        cursor.execute(renaming, ["by the silent"])

        assert execute(renaming, ["by others"]) == 1

        with pytest.raises(OperationalError):
            cursor.execute("SELECT 1")
    silent.close()
    assert ApiClient.objects.get().name == "by others"
