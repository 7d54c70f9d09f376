"""The statements of one request, recorded, so that a bare view can run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection, transaction


class Statement(NamedTuple):
    """SQL with its parameters; `named` says which of them are of the request, by position."""

    sql: str
    parameters: list[Any]
    named: dict[int, str]
    in_transaction: bool

    def naming(self, names: Mapping[Any, str]) -> Statement:
        """The statement whose parameters with these values are named so."""
        return self._replace(
            named={at: names[value] for at, value in enumerate(self.parameters) if value in names}
        )


def record(work: Callable[[], object]) -> list[Statement]:
    """What the work has the database do, each statement by itself even if some are sent at once."""
    statements: list[Statement] = []

    def keep(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        given = list(parameters or ())
        statements.append(Statement(sql, given, {}, connection.in_atomic_block))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(keep):
        work()
    return statements


def replay(statements: Sequence[Statement], values: Mapping[str, Any]) -> None:
    """Run them by a raw cursor, with the values of this request."""
    for in_transaction, some in groupby(statements, lambda each: each.in_transaction):
        if in_transaction:
            with transaction.atomic():
                _run(some, values)
        else:
            _run(some, values)


def _run(statements: Any, values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        for each in statements:
            parameters = list(each.parameters)
            for at, name in each.named.items():
                parameters[at] = values[name]
            cursor.execute(each.sql, parameters)
            if each.sql.startswith("SELECT"):
                cursor.fetchall()
            # Several statements in one.
            while ";" in each.sql and cursor.nextset():
                cursor.fetchall()
