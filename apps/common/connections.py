"""What the platform changes of Django's connections to the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.core.signals import request_finished, request_started
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

RECENT_SECONDS = 1.0


def register() -> None:
    """Have all connections of this process changed so."""
    connection_created.connect(_wrap, dispatch_uid="common.connections")
    request_finished.connect(_note_use, dispatch_uid="common.connections")
    request_started.connect(trust_recent, dispatch_uid="common.connections")


def close_refused(
    execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Django's wrapper of statements: the cursor of one that fails is closed at once.

    The error's traceback would keep it until some thread collects garbage, and that thread would
    have to wait for this connection, which may by then be waiting for its SQLite lock. Django
    itself does so, but not for the BEGIN of a transaction, which is what waits for that lock.
    """
    try:
        return execute(sql, parameters, many, context)
    except BaseException:
        context["cursor"].close()
        raise


def _wrap(connection: BaseDatabaseWrapper, **_signal: object) -> None:
    if connection.vendor == "mysql":
        from MySQLdb.constants import FIELD_TYPE

        # Sums, and columns that a UNION mixes with NULL, are decimals to the server, whatever
        # they are made of; SQLite gives them as the numbers that they are.
        connection.connection.converter[FIELD_TYPE.NEWDECIMAL] = _number
    elif close_refused not in connection.execute_wrappers:
        connection.execute_wrappers.append(close_refused)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _note_use(**_signal: object) -> None:
    if connection.connection is not None:
        connection.used_at = time.monotonic()  # type: ignore[attr-defined]


def trust_recent(**_signal: object) -> None:
    """Django checks each connection before its first statement in a request (CONN_HEALTH_CHECKS).

    That takes a fifth of an empty pull, so one that was used within the last second goes without.
    """
    used_at = getattr(connection, "used_at", -RECENT_SECONDS)
    if time.monotonic() - used_at < RECENT_SECONDS:
        connection.health_check_done = True  # type: ignore[attr-defined]
