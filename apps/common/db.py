"""Statements and transactions the ORM does not offer in the shape needed here."""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    OperationalError,
    connection,
    connections,
    models,
    transaction,
)
from django.db.backends.utils import CursorWrapper

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

MOST_TRIES = 5
# MariaDB/MySQL: deadlock, lock wait timeout, record changed since last read (snapshot isolation).
_RETRYABLE_MYSQL = {1213, 1205, 1020}
_RETRYABLE_SQLITE = ("database is locked", "database table is locked")

_preparations: list[Callable[[], None]] = []


def before_transactions(prepare: Callable[[], None]) -> None:
    """Have `prepare` called before each outermost `transactional` begins its transaction."""
    _preparations.append(prepare)


def is_retryable(error: BaseException) -> bool:
    """True when the whole transaction may be run again: the database gave up on a lock."""
    if not isinstance(error, DatabaseError):
        return False
    if connection.vendor == "mysql":
        return bool(error.args) and error.args[0] in _RETRYABLE_MYSQL
    return isinstance(error, OperationalError) and str(error).startswith(_RETRYABLE_SQLITE)


def transactional(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function in one transaction and the whole of it again (at most 5 times) on a lock.

    Inside a caller's transaction it joins that one: only the outermost knows what to repeat. The
    function must therefore make nothing but database writes before it returns.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if connection.in_atomic_block:
            with transaction.atomic():
                return function(*args, **kwargs)
        for prepare in _preparations:
            prepare()
        for attempt in range(1, MOST_TRIES + 1):
            try:
                with transaction.atomic():
                    return function(*args, **kwargs)
            except DatabaseError as error:
                if attempt == MOST_TRIES or not is_retryable(error):
                    raise
                logger.info("%s: lock lost, try %d", function.__qualname__, attempt + 1)
                time.sleep(random.uniform(0.002, 0.02) * 2**attempt)  # noqa: S311
        raise AssertionError("unreachable")

    return run


def shared_lock() -> str:
    """The SQL that lets the rows of a SELECT be read by many and changed by nobody until commit.

    Empty on SQLite, where a writing transaction is alone anyway.
    """
    return " LOCK IN SHARE MODE" if connection.vendor == "mysql" else ""


def forced(index: str) -> str:
    """The SQL, after a table, that has MariaDB/MySQL use this index and no other.

    For look-ups that their statistics mislead: what is one row on average may be a million in one
    place. Empty on SQLite, which prefers the longer match.
    """
    return f" FORCE INDEX ({index})" if connection.vendor == "mysql" else ""


def fetch(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a SELECT, as the driver gives them; `instant` reads their times.

    For the few statements of the hot paths, of which the ORM would keep half the speed.
    """
    with _run(sql, parameters) as cursor:
        return list(cursor.fetchall())


def execute(sql: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement that changes rows; returns how many it changed."""
    with _run(sql, parameters) as cursor:
        return int(cursor.rowcount)


def _run(sql: str, parameters: Sequence[Any]) -> CursorWrapper:
    # Asking for the connection by name costs less than every use of the proxy `connection`.
    database = connections[DEFAULT_DB_ALIAS]
    written = database.ops.adapt_datetimefield_value
    given = [written(each) if isinstance(each, datetime) else each for each in parameters]
    cursor = database.cursor()
    cursor.execute(sql, given)
    return cursor


def instant(value: Any) -> Any:
    """A time of a row of `fetch`, aware; None stays None."""
    if value is None:
        return None
    # SQLite has no type for times.
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=UTC)


def marks(count: int) -> str:
    """So many placeholders for the values of an IN."""
    return ", ".join(["%s"] * count)


def table(model: type[models.Model]) -> str:
    """The quoted name of its table."""
    return connection.ops.quote_name(model._meta.db_table)


@functools.cache
def _columns(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    return {field.attname: field for field in model._meta.concrete_fields}


def _quoted(field: models.Field[Any, Any]) -> str:
    return connection.ops.quote_name(str(field.column))


class _Shape(NamedTuple):
    """How rows that name certain columns are inserted: the statement up to its VALUES, the
    placeholders of one row, and for each column its name, the maker of its default and its
    conversion."""

    insert: str
    one: str
    columns: list[tuple[str, Callable[[], Any], Callable[[Any], Any] | None]]


@functools.cache
def _shape(model: type[models.Model], given: tuple[str, ...]) -> _Shape:
    fields = _columns(model)
    left_out = [n for n, f in fields.items() if n not in given and not f.primary_key]
    names = [*given, *left_out]
    columns = ", ".join(_quoted(fields[name]) for name in names)
    return _Shape(
        f"INSERT INTO {table(model)} ({columns}) VALUES ",  # noqa: S608
        f"({marks(len(names))})",
        [(name, fields[name].get_default, _conversion(fields[name])) for name in names],
    )


_PLAIN = (
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.BooleanField,
    models.ForeignKey,
)


def _conversion(field: models.Field[Any, Any]) -> Callable[[Any], Any] | None:
    """None where the driver takes the value as it is."""
    if isinstance(field, _PLAIN):
        return None
    if isinstance(field, models.DateTimeField):
        # `_run` writes them as the database takes them; texts are read first.
        return lambda value: field.to_python(value) if isinstance(value, str) else value
    return lambda value: field.get_db_prep_save(value, connection)


def insert_rows(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows in one statement; every row names the same columns (by attname).

    `bulk_create` keeps a sixth of the speed of this statement. VALUES holds placeholders only,
    because the driver joins rows only then. Columns left out take their model default.
    """
    if not rows:
        return
    shape = _shape(model, tuple(rows[0]))
    values = [
        value if convert is None else convert(value)
        for row in rows
        for name, default, convert in shape.columns
        for value in (row[name] if name in row else default(),)
    ]
    _run(shape.insert + ", ".join([shape.one] * len(rows)), values).close()


def ensure_row(model: type[models.Model], unique: Sequence[str], row: Mapping[str, Any]) -> None:
    """Make the row unless one with the same unique columns exists.

    On MariaDB/MySQL a duplicate takes the exclusive lock at once: INSERT IGNORE would take a shared
    one, and two callers that update the row next would deadlock.
    """
    fields = _columns(model)
    names = list(row)
    columns = ", ".join(_quoted(fields[name]) for name in names)
    values = marks(len(names))
    sql = f"INSERT INTO {table(model)} ({columns}) VALUES ({values})"  # noqa: S608
    key = _quoted(fields[unique[0]])
    if connection.vendor == "mysql":
        sql += f" ON DUPLICATE KEY UPDATE {key} = {key}"
    else:
        targets = ", ".join(_quoted(fields[name]) for name in unique)
        sql += f" ON CONFLICT ({targets}) DO NOTHING"
    _run(sql, [fields[n].get_db_prep_save(row[n], connection) for n in names]).close()
