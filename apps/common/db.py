"""Statements and transactions the ORM does not offer in the shape needed here."""

from __future__ import annotations

import functools
import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
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
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper

from apps.common.errors import Conflict, NotFound

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
RowT = TypeVar("RowT", bound=models.Model)

MOST_TRIES = 5
# SQLite takes 500 parts of one statement, and 32,766 parameters.
_PARTS_AT_ONCE = 150
_PARAMETERS_AT_ONCE = 30_000
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


def exclusive_lock() -> str:
    """The SQL that lets nobody else lock or change the rows of a SELECT until commit.

    Empty on SQLite, where a writing transaction is alone anyway.
    """
    return " FOR UPDATE" if connection.features.has_select_for_update else ""


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


def fetch_each(parts: Iterable[tuple[str, Sequence[Any]]]) -> Iterator[tuple[Any, ...]]:
    """The rows of many SELECTs, given with their parameters, in as few statements as there can be.

    Each may have an order and a limit of its own. MariaDB/MySQL takes them in parentheses, where a
    subquery would be written to a table and read again; SQLite knows no such parentheses.
    """
    form = "({})" if connection.vendor == "mysql" else "SELECT * FROM ({})"
    some: list[str] = []
    values: list[Any] = []
    for select, given in parts:
        is_full = len(values) + len(given) > _PARAMETERS_AT_ONCE
        if some and (is_full or len(some) == _PARTS_AT_ONCE):
            yield from fetch(" UNION ALL ".join(some), values)
            some, values = [], []
        some.append(form.format(select))
        values += given
    if some:
        yield from fetch(" UNION ALL ".join(some), values)


def execute(sql: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement that changes rows; returns how many it changed."""
    with _run(sql, parameters) as cursor:
        return int(cursor.rowcount)


def execute_then_fetch(
    changes: Sequence[tuple[str, Sequence[Any]]], sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run statements that change rows, then a SELECT; returns the rows of that.

    MariaDB/MySQL is sent all of them at once. Each is as if it had been run by itself, so without a
    transaction around them each is committed before the next.
    """
    if connection.vendor != "mysql":
        for change, given in changes:
            execute(change, given)
        return fetch(sql, parameters)
    together = "; ".join([change for change, _ in changes] + [sql])
    values = [value for _, given in changes for value in given]
    with _run(together, [*values, *parameters]) as cursor:
        for _ in changes:
            cursor.nextset()
        return list(cursor.fetchall())


def _run(sql: str, parameters: Sequence[Any]) -> CursorWrapper:
    return _send(
        sql, [written(each) if isinstance(each, datetime) else each for each in parameters]
    )


def _send(sql: str, parameters: Sequence[Any]) -> CursorWrapper:
    """Run the statement with parameters that are as the driver takes them."""
    # Asking for the connection by name costs less than every use of the proxy `connection`.
    cursor = connections[DEFAULT_DB_ALIAS].cursor()
    cursor.execute(sql, parameters)
    return cursor


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
    if connection.vendor == "sqlite" and close_refused not in connection.execute_wrappers:
        connection.execute_wrappers.append(close_refused)


connection_created.connect(_wrap, dispatch_uid="common.db")


def written(at: datetime) -> str:
    """The instant as a statement takes it, for values that stand in many rows."""
    # As both backends of Django do it, by way of settings and time zones.
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(" ")


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


@functools.cache
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
    placeholders of one row, the columns with their conversions, and what makes the values of the
    columns that are left out."""

    insert: str
    one: str
    given: list[tuple[str, Callable[[Any], Any] | None]]
    left_out: list[Callable[[], Any]]


@functools.cache
def _shape(model: type[models.Model], given: tuple[str, ...]) -> _Shape:
    fields = _columns(model)
    left_out = [n for n, f in fields.items() if n not in given and not f.primary_key]
    columns = ", ".join(_quoted(fields[name]) for name in (*given, *left_out))
    return _Shape(
        f"INSERT INTO {table(model)} ({columns}) VALUES ",  # noqa: S608
        f"({marks(len(given) + len(left_out))})",
        [(name, _conversion(fields[name])) for name in given],
        [_default_of(fields[name]) for name in left_out],
    )


def _default_of(field: models.Field[Any, Any]) -> Callable[[], Any]:
    def make() -> Any:
        value = field.get_default()
        return value if convert is None else convert(value)

    convert = _conversion(field)
    if callable(field.default):
        return make
    constant = make()
    return lambda: constant


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
    if isinstance(field, models.JSONField):
        return lambda value: None if value is None else json.dumps(value, cls=field.encoder)
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
    values: list[Any] = []
    for row in rows:
        values += [row[n] if convert is None else convert(row[n]) for n, convert in shape.given]
        values += [default() for default in shape.left_out]
    _run(shape.insert + ", ".join([shape.one] * len(rows)), values).close()


def update_rows(
    model: type[models.Model],
    changes: Mapping[int, Mapping[str, Any]],
    *,
    guard: str = "",
    parameters: Sequence[Any] = (),
    raised: Sequence[str] = (),
) -> int:
    """Change rows by id in one statement, each to values of its own; returns how many it changed.

    All changes name the same columns (by attname). What is equal in all is written once, the rest
    by CASE: `bulk_update` keeps an eighth of the speed. `guard` is SQL that rows must meet besides,
    with its parameters; the columns in `raised` grow by one.
    """
    if not changes:
        return 0
    fields, ids = _columns(model), sorted(changes)
    key = _quoted(fields[model._meta.pk.attname])
    sets, values = [], list[Any]()
    for name in changes[ids[0]]:
        convert = _conversion(fields[name])
        given = [changes[pk][name] for pk in ids]
        if convert is not None:
            given = [convert(each) for each in given]
        column = _quoted(fields[name])
        if given.count(given[0]) == len(given):
            sets.append(f"{column} = %s")
            values.append(given[0])
        else:
            sets.append(f"{column} = CASE {key}{' WHEN %s THEN %s' * len(ids)} END")
            values.extend(part for pair in zip(ids, given, strict=True) for part in pair)
    for name in raised:
        column = _quoted(fields[name])
        sets.append(f"{column} = {column} + 1")
    sql = (
        f"UPDATE {table(model)} SET {', '.join(sets)} WHERE {key} IN ({marks(len(ids))})"  # noqa: S608
        + (f" AND {guard}" if guard else "")
    )
    return execute(sql, [*values, *ids, *parameters])


def insert_values(
    model: type[models.Model],
    names: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Insert rows given as values in the order of the names, in one statement.

    The values are as the driver takes them: JSON as text, times `written`. Columns left out take
    their model default, a constant, which costs nothing per row.
    """
    if not rows:
        return
    insert, one = _constant_shape(model, names)
    _send(insert + ", ".join([one] * len(rows)), list(chain.from_iterable(rows))).close()


@functools.cache
def _constant_shape(model: type[models.Model], names: tuple[str, ...]) -> tuple[str, str]:
    """The statement up to its VALUES, and one row of them with the constants written out."""
    fields = _columns(model)
    left_out = [f for n, f in fields.items() if n not in names and not f.primary_key]
    columns = ", ".join(_quoted(field) for field in [*(fields[n] for n in names), *left_out])
    constants = "".join(f", {_constant(field)}" for field in left_out)
    return (
        f"INSERT INTO {table(model)} ({columns}) VALUES ",  # noqa: S608
        f"({marks(len(names))}{constants})",
    )


def _constant(field: models.Field[Any, Any]) -> str:
    value = field.get_default()
    if value is None:
        return "NULL"
    if value == "":
        return "''"
    if isinstance(value, int):
        return str(int(value))
    raise TypeError(f"{field} has no constant default; name it among the columns")


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


def take_version(model: type[RowT], pk: int, version: int | None) -> RowT:
    """The row, locked for the rest of the transaction.

    Conflict when the caller's version is not the current one; None means "whatever is there".
    """
    row = model._default_manager.select_for_update().filter(pk=pk).first()
    if row is None:
        raise NotFound(f"{model._meta.verbose_name} {pk} does not exist any more.")
    current: int = row.version  # type: ignore[attr-defined]
    if version is not None and version != current:
        by = getattr(row, "updated_by", "") or "somebody else"
        raise Conflict(
            f"It was changed by {by} since you read it (version {version}, now {current}); "
            "read it again and repeat your change."
        )
    return row
