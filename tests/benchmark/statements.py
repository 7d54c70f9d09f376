"""Statements recorded, to be run again by a raw cursor, and copies of tables to run them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db import connection, transaction

from apps.common import clock
from apps.common.db import execute, fetch, table

# The begin of the name of a time; its seconds from the present follow.
NOW = "now+"
LENGTH = len("2026-01-01 00:00:00.000000")


class Statement(NamedTuple):
    """SQL with its parameters; `named` says which of them differ by request, by position.

    `rows` is how many it changed when it was recorded; -1: it changes none, it reads.
    """

    sql: str
    parameters: list[Any]
    named: dict[int, str]
    in_transaction: bool
    rows: int

    def naming(self, names: Mapping[Any, str]) -> Statement:
        """The statement with names for the parameters that have these values."""
        return self._replace(
            named=self.named
            | {at: names[value] for at, value in enumerate(self.parameters) if value in names}
        )


def record(work: Callable[[], object]) -> list[Statement]:
    """The statements that the work executes; times in them move on with the clock."""
    statements: list[Statement] = []
    begun = clock.now()

    def keep(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        given = list(parameters or ())
        inside = connection.in_atomic_block
        answer = execute(sql, parameters, many, context)
        until = clock.now()
        named = {
            at: f"{NOW}{(moment - until if moment > until else timedelta()).total_seconds()}"
            for at, value in enumerate(given)
            if (moment := _moment(value)) and moment >= begun
        }
        rows = -1 if _reads(sql) else context["cursor"].rowcount
        statements.append(Statement(sql, given, named, inside, rows))
        return answer

    with connection.execute_wrapper(keep):
        work()
    return statements


def replay(statements: Sequence[Statement], values: Mapping[str, Any]) -> None:
    """Run the statements by a raw cursor, with the values of this request.

    CommandError when one changes another number of rows than it did when it was recorded: a
    baseline that does less would make anything look slow.
    """
    for in_transaction, some in groupby(statements, lambda each: each.in_transaction):
        if in_transaction:
            with transaction.atomic():
                _run(some, values)
        else:
            _run(some, values)


def _run(statements: Iterator[Statement], values: Mapping[str, Any]) -> None:
    now = clock.now()
    with connection.cursor() as cursor:
        for each in statements:
            parameters = list(each.parameters)
            for at, name in each.named.items():
                parameters[at] = _later(now, name) if name.startswith(NOW) else values[name]
            cursor.execute(each.sql, parameters)
            if _reads(each.sql):
                cursor.fetchall()
            elif cursor.rowcount != each.rows:
                raise CommandError(
                    f"The baseline changed {cursor.rowcount} rows where {each.rows} were changed "
                    f"by {each.sql[:200]}"
                )


def _reads(sql: str) -> bool:
    return sql.startswith(("SELECT", "(SELECT"))


def _moment(value: Any) -> datetime | None:
    """A parameter that is a time, as statements write it."""
    if not (isinstance(value, str) and len(value) == LENGTH and value[10] == " "):
        return None
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


def _later(now: datetime, name: str) -> str:
    moment = now + timedelta(seconds=float(name.removeprefix(NOW)))
    return moment.replace(tzinfo=None).isoformat(" ", "microseconds")


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
