"""Statements and transactions that the ORM does not offer."""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    models,
    transaction,
)
from django.db.models.expressions import Col
from django.db.models.sql.where import WhereNode

from apps.common.error_lines import line_of_error
from apps.common.ttl_cache import TTLCache

logger = logging.getLogger(__name__)

# A statement and its parameters.
Statement = tuple[str, Sequence[Any]]
P = ParamSpec("P")
R = TypeVar("R")

MAX_TRIES = 5
# SQLite takes 500 parts of one statement, and 32,766 parameters.
_PARTS_AT_ONCE = 150
_PARAMETERS_AT_ONCE = 30_000
# MariaDB/MySQL: deadlock, lock wait timeout, record changed since last read (snapshot isolation).
_RETRYABLE_MYSQL = {1213, 1205, 1020}
# A row that another one refers to does not exist.
_FOREIGN_KEY_MYSQL = {1216, 1452}
_RETRYABLE_SQLITE = ("database is locked", "database table is locked")

_preparations: list[Callable[[], None]] = []


def before_transactions(prepare: Callable[[], None]) -> None:
    """Have `prepare` called before each outermost `transactional` begins its transaction."""
    _preparations.append(prepare)


def is_retryable(error: BaseException) -> bool:
    """Whether the transaction can be repeated: the database aborted it because of a lock."""
    if not isinstance(error, DatabaseError):
        return False
    if connection.vendor == "mysql":
        return bool(error.args) and error.args[0] in _RETRYABLE_MYSQL
    return isinstance(error, OperationalError) and str(error).startswith(_RETRYABLE_SQLITE)


def refers_to_nothing(error: IntegrityError) -> bool:
    """Whether a row was to refer to one that does not exist, such as one deleted just then."""
    if connection.vendor == "mysql":
        return bool(error.args) and error.args[0] in _FOREIGN_KEY_MYSQL
    return str(error).startswith("FOREIGN KEY constraint")


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function in a transaction, and again (at most 5 times) after a deadlock or timeout.

    Inside a caller's transaction it joins that one: only the outermost knows what to repeat. The
    function must therefore make nothing but database writes before it returns.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with transaction.atomic():
            return function(*args, **kwargs)

    repeated = repeatable(run)

    @functools.wraps(function)
    def prepared(*args: P.args, **kwargs: P.kwargs) -> R:
        if not connection.in_atomic_block:
            for prepare in _preparations:
                prepare()
        return repeated(*args, **kwargs)

    return prepared


def repeatable(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function again (at most 5 times) after a deadlock or timeout, as `transactional`
    does, but without a transaction of its own: each of its writes is one statement, and the whole
    function can be repeated after any of them.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if connection.in_atomic_block:
            return function(*args, **kwargs)
        for attempt in range(1, MAX_TRIES + 1):
            try:
                return function(*args, **kwargs)
            except DatabaseError as error:
                if attempt == MAX_TRIES or not is_retryable(error):
                    raise
                logger.info("%s: lock lost, try %d", function.__qualname__, attempt + 1)
                time.sleep(random.uniform(0.002, 0.02) * 2**attempt)  # noqa: S311
        raise AssertionError("unreachable")

    return run


@dataclass
class Tried:
    """One row of many that is handled, and the line that names its error; "" for none."""

    error: str = ""


# What was logged in the last hour. What fails in each round of a sweep would fill the log.
logged_lately: TTLCache[str] = TTLCache(3600.0, most=1000)


@contextmanager
def apart(what: str, *, but: tuple[type[Exception], ...] = ()) -> Iterator[Tried]:
    """Handle one row of many: an error is logged, so that the others have their turn; the same one
    again an hour later. Errors of these types `but` are raised.

    Inside a transaction an error is raised if the whole must be repeated; others need a savepoint.
    """
    tried = Tried()
    try:
        yield tried
    except Exception as error:
        if isinstance(error, but) or (connection.in_atomic_block and is_retryable(error)):
            raise
        tried.error = line_of_error(error)
        if logged_lately.add((what, tried.error), tried.error):
            logger.exception("%s failed; the others go on", what)


def shared_lock() -> str:
    """The SQL for a shared lock on the rows of a SELECT: nobody changes them until commit.

    Empty on SQLite, which has one writing transaction at a time.
    """
    return " LOCK IN SHARE MODE" if connection.vendor == "mysql" else ""


def exclusive_lock(*, skip_locked: bool = False) -> str:
    """The SQL for an exclusive lock on the rows of a SELECT until commit.

    With `skip_locked`, rows that are locked are left out instead of waited for.
    Empty on SQLite, which has one writing transaction at a time.
    """
    if not connection.features.has_select_for_update:
        return ""
    return " FOR UPDATE SKIP LOCKED" if skip_locked else " FOR UPDATE"


def force_index(index: str) -> str:
    """The SQL after a table name that makes MariaDB/MySQL use this index.

    For queries whose statistics are misleading: a value with one row on average can have a
    million. Empty on SQLite, which prefers the longer match.
    """
    return f" FORCE INDEX ({index})" if connection.vendor == "mysql" else ""


def is_mysql() -> bool:
    """Whether this is MySQL itself, which lacks some of what MariaDB has."""
    return connection.vendor == "mysql" and not getattr(connection, "mysql_is_mariadb", False)


def unlikely(condition: str) -> str:
    """The condition with a hint for SQLite that few rows meet it.

    After an ANALYZE while a column is NULL in every row, SQLite assumes that a value of it
    matches all rows, and a join by it reads the whole table.
    """
    return f"likelihood({condition}, 0.0001)" if connection.vendor == "sqlite" else condition


class _Unindexed(models.Func):
    template, arity = "+%(expressions)s", 1


def only_compared(rows: models.QuerySet[Any], among: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """The rows of a short range of the key, without a use of other indexes on SQLite.

    Without an ANALYZE, SQLite takes it that an index finds ten rows of any value, and sorts a
    million of them. Where `among`, whose rows the range is of, has a condition beside the key, they
    are left as they are: then the range may be of the index of that.
    """
    if connection.vendor != "sqlite" or not all(map(_is_key, among.query.where.leaves())):
        return rows
    rows = rows.all()
    rows.query.where = _without_indexes(rows.query.where)
    return rows


def _is_key(condition: Any) -> bool:
    column = getattr(condition, "lhs", None)
    return isinstance(column, Col) and column.target.primary_key


def _without_indexes(condition: Any) -> Any:
    if isinstance(condition, WhereNode):
        condition = condition.copy()
        condition.children = [_without_indexes(each) for each in condition.children]
    elif isinstance(column := getattr(condition, "lhs", None), Col) and not _is_key(condition):
        condition = copy(condition)
        condition.lhs = _Unindexed(column, output_field=column.output_field)
    return condition


def fetch(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a SELECT, as the driver gives them; `instant` reads their times.

    For the hot paths: the ORM takes twice as long.
    """
    with connection.cursor() as cursor:
        cursor.execute(sql, _adapted(parameters))
        return list(cursor.fetchall())


def fetch_each(parts: Iterable[tuple[str, Sequence[Any]]]) -> Iterator[tuple[Any, ...]]:
    """The rows of many SELECTs, given with their parameters, in as few statements as possible.

    Each may have an order and a limit of its own. MariaDB/MySQL takes them in parentheses, where a
    subquery would be written to a table and read again; SQLite knows no such parentheses.
    """
    some: list[str] = []
    values: list[Any] = []
    for select, given in parts:
        is_full = len(values) + len(given) > _PARAMETERS_AT_ONCE
        if some and (is_full or len(some) == _PARTS_AT_ONCE):
            yield from fetch(_union(some), values)
            some, values = [], []
        some.append(select)
        values += given
    if some:
        yield from fetch(_union(some), values)


def _union(selects: Sequence[str]) -> str:
    if len(selects) == 1:
        return selects[0]
    form = "({})" if connection.vendor == "mysql" else "SELECT * FROM ({})"
    return " UNION ALL ".join(map(form.format, selects))


def execute(sql: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement that changes rows; returns how many it changed."""
    with connection.cursor() as cursor:
        cursor.execute(sql, _adapted(parameters))
        return int(cursor.rowcount)


@repeatable
def raise_by_one(model: type[models.Model], column: str, pk: int, guard: str) -> int | None:
    """Raise a column of the row, if it meets the guard in SQL; its new value, None when not raised.

    Callers at once get values of their own, because the statement returns what it has written.
    """
    written = f"UPDATE {table(model)} SET {column} = "
    where = f"WHERE id = %s AND {guard}"
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"{written}LAST_INSERT_ID({column} + 1) {where}", [pk])
            return int(cursor.lastrowid) if cursor.rowcount else None
        cursor.execute(f"{written}{column} + 1 {where} RETURNING {column}", [pk])
        row = cursor.fetchone()
        return None if row is None else int(row[0])


def execute_and_fetch(
    change: str, values: Sequence[Any], select: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """`execute` one statement, then `fetch` the rows of another, such as what it has changed.

    MariaDB/MySQL gets both in one message, which spares a round trip.
    """
    if connection.vendor != "mysql":
        execute(change, values)
        return fetch(select, parameters)
    with connection.cursor() as cursor:
        cursor.execute(f"{change}; {select}", _adapted([*values, *parameters]))
        cursor.nextset()
        return list(cursor.fetchall())


def execute_all(statements: Sequence[Statement]) -> None:
    """`execute` all of these statements or none.

    Outside of a transaction MariaDB/MySQL gets them in one message with their own: its round trips
    take as long as two short INSERTs.
    """
    if connection.vendor != "mysql" or connection.in_atomic_block:
        with transaction.atomic():
            for sql, parameters in statements:
                execute(sql, parameters)
        return
    sql = "; ".join(["START TRANSACTION", *(sql for sql, _parameters in statements), "COMMIT"])
    values = [value for _sql, parameters in statements for value in parameters]
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, _adapted(values))
            while cursor.nextset():
                pass
    except BaseException as error:
        # The server has gone no further, and what it has begun is open.
        if isinstance(error, IntegrityError):
            connection.rollback()
        else:
            connection.close()
        raise


def _adapted(parameters: Sequence[Any]) -> list[Any]:
    """The parameters, with instants as both databases expect them."""
    return [written(each) if isinstance(each, datetime) else each for each in parameters]


def time_text(column: str) -> str:
    """SQL of a time as text, which the driver reads in a tenth of the time of an instant."""
    return f"CAST({column} AS CHAR)"


def raw(value: str) -> str:
    """SQL of a value that another program wrote, with its text as bytes on SQLite.

    SQLite keeps any bytes as text, and its driver fails at those that are not UTF-8; MariaDB and
    MySQL refuse them at the INSERT.
    """
    if connection.vendor != "sqlite":
        return value
    return f"CASE typeof({value}) WHEN 'text' THEN CAST({value} AS BLOB) ELSE {value} END"


def written(at: datetime) -> str:
    """The instant as a parameter, converted once for many rows."""
    # Both backends of Django do the same, more slowly.
    return at.astimezone(UTC).isoformat(" ")[: -len("+00:00")]


def instant(value: Any) -> Any:
    """A time of a row of `fetch`, aware; None stays None."""
    if value is None:
        return None
    # SQLite has no type for times.
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=UTC)


class Instants(dict[Any, Any]):
    """`instant` for many rows, cached by the value of the driver: most rows of a batch share it."""

    def __missing__(self, value: Any) -> Any:
        at = self[value] = instant(value)
        return at


def placeholders(count: int) -> str:
    """`count` placeholders for the values of an IN."""
    return ", ".join(["%s"] * count)


@functools.cache
def table(model: type[models.Model]) -> str:
    """The quoted name of its table."""
    return connection.ops.quote_name(model._meta.db_table)
