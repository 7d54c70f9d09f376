"""Statements recorded, to be run again by a raw cursor, and copies of tables to run them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection, transaction

from apps.common.db import execute, fetch, table


class Statement(NamedTuple):
    """SQL with its parameters; `named` says which of them differ by request, by position."""

    sql: str
    parameters: list[Any]
    named: dict[int, str]
    in_transaction: bool

    def naming(self, names: Mapping[Any, str]) -> Statement:
        """The statement with names for the parameters that have these values."""
        return self._replace(
            named={at: names[value] for at, value in enumerate(self.parameters) if value in names}
        )


def record(work: Callable[[], object]) -> list[Statement]:
    """The statements that the work executes."""
    statements: list[Statement] = []

    def keep(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        given = list(parameters or ())
        statements.append(Statement(sql, given, {}, connection.in_atomic_block))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(keep):
        work()
    return statements


def replay(statements: Sequence[Statement], values: Mapping[str, Any]) -> None:
    """Run the statements by a raw cursor, with the values of this request."""
    for in_transaction, some in groupby(statements, lambda each: each.in_transaction):
        if in_transaction:
            with transaction.atomic():
                _run(some, values)
        else:
            _run(some, values)


def _run(statements: Iterator[Statement], values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        for each in statements:
            parameters = list(each.parameters)
            for at, name in each.named.items():
                parameters[at] = values[name]
            cursor.execute(each.sql, parameters)
            if each.sql.startswith("SELECT"):
                cursor.fetchall()


class Copy:
    """A table with the rows and indexes that the model's has now; `name` as SQL."""

    def __init__(self, model: Any, suffix: str) -> None:
        self._of = table(model)
        self.name = connection.ops.quote_name(f"{model._meta.db_table}_{suffix}")
        self._aside = connection.ops.quote_name(f"{model._meta.db_table}_aside")
        execute(f"CREATE TABLE {self.name} LIKE {self._of}")
        execute(f"INSERT INTO {self.name} SELECT * FROM {self._of}")
        fetch(f"ANALYZE TABLE {self.name}")

    def swap_in(self) -> str:
        """The renames that put it in place of the original."""
        return f"{self._of} TO {self._aside}, {self.name} TO {self._of}"

    def swap_out(self) -> str:
        return f"{self._of} TO {self.name}, {self._aside} TO {self._of}"


@contextmanager
def in_place(*copies: Copy) -> Iterator[None]:
    """Let each copy be the table inside the block: few and many rows are used in turn."""
    execute(f"RENAME TABLE {', '.join(each.swap_in() for each in copies)}")
    try:
        yield
    finally:
        execute(f"RENAME TABLE {', '.join(each.swap_out() for each in copies)}")
