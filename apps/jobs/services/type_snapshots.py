"""The settings of types as services use them: a snapshot of the table, at most a second old.

A hold claims with the versions of its snapshot and reads anew when refused, so an edit applies at
the next hold. Submissions see it a second later, and at once in the process that made it.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from django.db import connection, models

from apps.common.db import fetch, instant, table
from apps.common.readers import is_key
from apps.common.shaped import ShapedField
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules.type_settings import MAX_NAME
from apps.jobs.rules.type_snapshot import TypeSnapshot

MAX_AGE_SECONDS = 1.0
# How the values of a row are read; all others are as the drivers give them.
_READ: Mapping[type[models.Field[Any, Any]], Callable[[Any], Any]] = {
    models.BooleanField: bool,
    models.DateTimeField: instant,
    models.JSONField: json.loads,
}


def _reader(field: Any) -> Callable[[Any], Any] | None:
    if isinstance(field, ShapedField):
        return lambda text: field.shaped(json.loads(text))
    return _READ.get(type(field))


_COLUMNS = {str(field.column): _reader(field) for field in JobType._meta.concrete_fields}


def is_closed(name: str) -> bool:
    """Whether only code submits jobs of the type of this name."""
    type_ = type_snapshots([name]).get(name)
    return registry.is_closed(name, type_.handler if type_ else "")


class _Cached(NamedTuple):
    """The snapshots by name, the rows that they were made of, and when these were last read."""

    read_at: float
    rows: list[tuple[Any, ...]]
    types: dict[str, TypeSnapshot]


_cached: _Cached | None = None


def type_snapshots(
    names: Collection[str] | None = None, *, max_age: float = MAX_AGE_SECONDS
) -> dict[str, TypeSnapshot]:
    """The types of these names without the unknown ones, or all of them, sorted by name."""
    global _cached
    cached, now = _cached, time.monotonic()
    if (
        cached is None
        or now - cached.read_at >= max_age
        or _are_new([name for name in names or () if name not in cached.types])
    ):
        rows = fetch(_select())
        if cached is not None and rows == cached.rows:
            # As nearly always; to make snapshots takes much longer than to read.
            types = cached.types
        else:
            types = {each.name: each for each in map(_made, rows)}
        _cached = cached = _Cached(now, rows, types)
    known = cached.types
    return known if names is None else {name: known[name] for name in names if name in known}


@functools.cache
def _select() -> str:
    columns = map(connection.ops.quote_name, _COLUMNS)
    return f"SELECT {', '.join(columns)} FROM {table(JobType)} ORDER BY name"


def _made(row: tuple[Any, ...]) -> TypeSnapshot:
    values = {
        column: value if read is None or value is None else read(value)
        for (column, read), value in zip(_COLUMNS.items(), row, strict=True)
    }
    return JobType(**values).snapshot


def _are_new(names: Collection[str]) -> bool:
    """Whether some of the unknown names have a type by now."""
    wanted = [name for name in names if is_key(name, MAX_NAME)]
    return bool(wanted) and JobType.objects.filter(name__in=wanted).exists()


def forget_type_snapshots() -> None:
    """Read the table at the next call."""
    global _cached
    _cached = None


def all_types() -> list[TypeSnapshot]:
    """All types as they are now, by name."""
    return list(type_snapshots(max_age=0).values())
