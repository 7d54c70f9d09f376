"""Bulk inserts and updates that the ORM does slowly or not at all."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from django.db import connection, models

from apps.common.db import Statement, execute, is_mysql, placeholders, repeatable, table
from apps.common.shaped import stored

# The letters of all long texts in one statement, unless it has a single row: MariaDB closes the
# connection of a statement longer than 16 MB (max_allowed_packet), and a letter takes up to four
# bytes there.
MAX_LETTERS = 2_000_000
# Texts are counted in columns that take more letters than this.
_LONG = 1_000
# So many rows repay looking for what they share.
_MANY = 20
RowT = TypeVar("RowT")


def letters_of(values: Iterable[Any]) -> int:
    """The number of letters of the texts among the values."""
    return sum([len(value) for value in values if type(value) is str])


def _parts(rows: Sequence[RowT], letters: Iterable[int]) -> Iterator[Sequence[RowT]]:
    """The rows in statements that no database finds too long."""
    begin = total = 0
    for position, more in enumerate(letters):
        total += more
        if total > MAX_LETTERS and position > begin:
            yield rows[begin:position]
            begin, total = position, more
    yield rows[begin:]


def _is_long(field: models.Field[Any, Any]) -> bool:
    is_text = isinstance(field, models.JSONField | models.TextField | models.CharField)
    return is_text and (field.max_length or math.inf) > _LONG


@functools.cache
def _columns(model: type[models.Model]) -> dict[str, models.Field[Any, Any]]:
    return {field.attname: field for field in model._meta.concrete_fields}


def _quoted(field: models.Field[Any, Any]) -> str:
    return connection.ops.quote_name(str(field.column))


_PLAIN = (
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.BooleanField,
    models.ForeignKey,
)


def _conversion(field: models.Field[Any, Any]) -> Callable[[Any], Any] | None:
    """The conversion of a value for the driver; None if it takes the value unchanged."""
    if isinstance(field, _PLAIN):
        return None
    if isinstance(field, models.JSONField):
        return lambda value: None if value is None else json.dumps(stored(value), cls=field.encoder)
    if isinstance(field, models.DateTimeField):
        # `execute` converts datetimes; texts are parsed first.
        return lambda value: field.to_python(value) if isinstance(value, str) else value
    return lambda value: field.get_db_prep_save(value, connection)


def _constant(field: models.Field[Any, Any]) -> str:
    """The default in SQL; "" unless it is a constant that needs no quotes."""
    if field.has_default() and callable(field.default):
        return ""
    value = field.get_default()
    if value is None:
        return "NULL"
    if value == "":
        return "''"
    return str(int(value)) if isinstance(value, int) else ""


def _is_filled(field: models.Field[Any, Any]) -> bool:
    """Whether the database has its default, so that an INSERT need not name it."""
    return field.has_db_default() or (field.null and not field.has_default())


def _default(field: models.Field[Any, Any]) -> Any:
    value, convert = field.get_default(), _conversion(field)
    return value if convert is None else convert(value)


def insert_rows(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, in one statement unless that would be too long; every row names the same columns
    (by attname), with values as models have them. Columns left out take their model default."""
    if rows:
        insert_values(model, *_values_of(model, rows))


def insertion(model: type[models.Model], row: Mapping[str, Any]) -> Statement:
    """The statement by which `insert_rows` inserts the row."""
    [statement] = insertions(model, *_values_of(model, [row]))
    return statement


def _values_of(
    model: type[models.Model], rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], list[list[Any]]]:
    """The columns that rows fill, and the values of each as the driver takes them."""
    names, conversions, made = _filling(model, tuple(rows[0]))
    return names, [
        [row[n] if convert is None else convert(row[n]) for n, convert in conversions]
        + [_default(field) for field in made]
        for row in rows
    ]


@functools.cache
def _filling(
    model: type[models.Model], given: tuple[str, ...]
) -> tuple[
    tuple[str, ...],
    list[tuple[str, Callable[[Any], Any] | None]],
    list[models.Field[Any, Any]],
]:
    """The columns that rows which name these fill, how the given values are converted, and the
    fields of the others: those whose default is no constant."""
    fields = _columns(model)
    left_out = [f for n, f in fields.items() if n not in given and not f.primary_key]
    made = [field for field in left_out if not _constant(field)]
    conversions = [(name, _conversion(fields[name])) for name in given]
    return (*given, *(field.attname for field in made)), conversions, made


def insert_values(
    model: type[models.Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert rows given as values in the order of the names, in one statement unless that would be
    too long. `bulk_create` takes six times as long.

    The values are as the driver takes them: JSON as text, times `written`. Columns left out take
    their model default, a constant. That, and a value that all of many rows have, is written once:
    reading the text of the rows would be more than half of the work of the server.
    """
    for sql, values in insertions(model, names, rows):
        execute(sql, values)


def insertions(
    model: type[models.Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> Iterator[Statement]:
    """The statements of `insert_values`."""
    if rows:
        insert, one, constants, long = _insertion_of(model, names)
        for some in _short_enough(rows, long):
            if len(some) >= _MANY and _can_write_once(model, names):
                select, values = _with_what_differs(some, constants)
                yield insert + select, values
            else:
                values = list(chain.from_iterable(some))
                yield f"{insert}VALUES {', '.join([one] * len(some))}", values


def _can_write_once(model: type[models.Model], names: tuple[str, ...]) -> bool:
    """Whether a WITH takes rows of values. Where the database makes the ids, MariaDB would lock
    them for all that such a statement takes."""
    return model._meta.pk.attname in names and not is_mysql()


def _with_what_differs(
    rows: Sequence[Sequence[Any]], constants: Sequence[str]
) -> tuple[str, list[Any]]:
    """A SELECT of the rows and the constants, and its parameters: of each row those values in which
    it differs from others, then the values that all have."""
    names, differing, selected, shared = (
        list[str](),
        list[Sequence[Any]](),
        list[str](),
        list[Any](),
    )
    for values in zip(*rows, strict=True):
        first = values[0]
        # 1 equals True and 1.0, which are written otherwise.
        if values.count(first) == len(values) and len({*map(type, values)}) == 1:
            selected.append("%s")
            shared.append(first)
        else:
            names.append(f"v{len(names)}")
            selected.append(names[-1])
            differing.append(values)
    one = f"({placeholders(len(names))})"
    select = (
        f"WITH differing ({', '.join(names)}) AS (VALUES {', '.join([one] * len(rows))}) "
        f"SELECT {', '.join([*selected, *constants])} FROM differing"
    )
    return select, [*chain.from_iterable(zip(*differing, strict=True)), *shared]


def _short_enough(
    rows: Sequence[Sequence[Any]], long: Sequence[int]
) -> Iterable[Sequence[Sequence[Any]]]:
    """`_parts` of rows of values, by the texts in these places; mostly all are one part."""
    if sum(letters_of([row[place] for row in rows]) for place in long) <= MAX_LETTERS:
        return [rows]
    return _parts(rows, (letters_of([row[place] for place in long]) for row in rows))


@functools.cache
def _insertion_of(
    model: type[models.Model], names: tuple[str, ...]
) -> tuple[str, str, list[str], list[int]]:
    """An INSERT up to its rows, one row in it, the constants that its last columns take, and the
    places of those with long texts."""
    fields = _columns(model)
    left_out = {
        field: _constant(field)
        for name, field in fields.items()
        if name not in names and not (field.primary_key or _is_filled(field))
    }
    for field, constant in left_out.items():
        if not constant:
            raise TypeError(f"{field} has no constant default; name it among the columns")
    columns = ", ".join(_quoted(field) for field in [*(fields[n] for n in names), *left_out])
    constants = [*left_out.values()]
    return (
        f"INSERT INTO {table(model)} ({columns}) ",
        f"({', '.join([*['%s'] * len(names), *constants])})",
        constants,
        [place for place, name in enumerate(names) if _is_long(fields[name])],
    )


def update_rows(
    model: type[models.Model],
    changes: Mapping[Any, Mapping[str, Any]],
    *,
    guard: str = "",
    parameters: Sequence[Any] = (),
    raised: Sequence[str] = (),
) -> int:
    """Change rows by id, each to values of its own, in one statement unless that would be too long;
    returns how many it changed.

    All changes name the same columns (by attname). Values that are equal in all changes are
    written once, others by CASE: `bulk_update` takes eight times as long. `guard` is a further
    condition in SQL, with its parameters; the columns in `raised` grow by one.
    """
    if not changes:
        return 0
    fields, ids = _columns(model), sorted(changes)
    first = changes[ids[0]]
    are_one = all(each is first for each in changes.values())
    written: dict[str, list[Any]] = {}
    for name in first:
        convert = _conversion(fields[name])
        given = [first[name]] if are_one else [changes[pk][name] for pk in ids]
        if convert is not None:
            # Mostly one instant, or nothing; equal values may be of other types.
            is_same = len({*map(id, given)}) == 1
            given = [convert(given[0])] * len(given) if is_same else [*map(convert, given)]
        written[name] = given
    long = [given for name, given in written.items() if _is_long(fields[name])]
    if are_one or not long:
        # Equal values are written once, however many rows there are.
        return _update(model, ids, written, guard, parameters, raised)
    changed = 0
    for some in _parts(range(len(ids)), map(letters_of, zip(*long, strict=True))):
        part = {name: given[some[0] : some[-1] + 1] for name, given in written.items()}
        changed += _update(model, ids[some[0] : some[-1] + 1], part, guard, parameters, raised)
    return changed


def _update(
    model: type[models.Model],
    ids: Sequence[Any],
    written: Mapping[str, list[Any]],
    guard: str,
    parameters: Sequence[Any],
    raised: Sequence[str],
) -> int:
    """Change the rows in one statement, with the values of each column in the order of the ids, or
    the one value of all."""
    fields = _columns(model)
    key = _quoted(fields[model._meta.pk.attname])
    sets, values = [], list[Any]()
    for name, given in written.items():
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
        f"UPDATE {table(model)} SET {', '.join(sets)} WHERE {key} IN ({placeholders(len(ids))})"
        + (f" AND {guard}" if guard else "")
    )
    return execute(sql, [*values, *ids, *parameters])


def ensure_row(model: type[models.Model], unique: Sequence[str], row: Mapping[str, Any]) -> None:
    """Make the row unless one with the same unique columns exists."""
    ensure_rows(model, unique, [row])


@repeatable
def ensure_rows(
    model: type[models.Model], unique: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Make those of the rows of which none with the same unique columns exists; every row names the
    same columns.

    On MariaDB/MySQL a duplicate takes the exclusive lock at once: INSERT IGNORE would take a shared
    one, and two callers that update the row next would deadlock.
    """
    if not rows:
        return
    fields = _columns(model)
    names = list(rows[0])
    columns = ", ".join(_quoted(fields[name]) for name in names)
    one = f"({placeholders(len(names))})"
    sql = f"INSERT INTO {table(model)} ({columns}) VALUES {', '.join([one] * len(rows))}"
    key = _quoted(fields[unique[0]])
    if connection.vendor == "mysql":
        sql += f" ON DUPLICATE KEY UPDATE {key} = {key}"
    else:
        targets = ", ".join(_quoted(fields[name]) for name in unique)
        sql += f" ON CONFLICT ({targets}) DO NOTHING"
    execute(sql, [fields[n].get_db_prep_save(row[n], connection) for row in rows for n in names])
