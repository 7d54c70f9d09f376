"""Jobs as rows of the columns that a NamedTuple names, and arrows that many take in one UPDATE: the
ORM takes ten times as long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, TypeVar

from django.db import connection
from django.db.models import DateTimeField

from apps.common.db import Instants, fetch, placeholders, table, time_text
from apps.common.json_rules import MAX_BYTES
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t

RowT = TypeVar("RowT", bound=tuple[Any, ...])
# The largest size of the contexts and checkpoints of one answer to a worker, in bytes.
ANSWER_BYTES = 6 * 1024 * 1024


def read_jobs(shape: type[RowT], ids: Iterable[int], lock: str = "") -> dict[int, RowT]:
    """The jobs that exist, by id and in that order: times as instants, JSON as text. The first
    column of the shape is the id; `lock` is SQL."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    columns, times = _columns(shape)
    rows = fetch(
        f"SELECT {columns} FROM {table(Job)} WHERE id IN ({placeholders(len(wanted))}) "
        f"ORDER BY id{lock}",
        wanted,
    )
    at = Instants()
    found = {}
    for row in rows:
        values = list(row)
        for place in times:
            values[place] = at[values[place]]
        found[row[0]] = shape(*values)
    return found


def fitting(ids: Sequence[int], most: int) -> set[int]:
    """The first of these jobs whose contexts and checkpoints have at most so many bytes together;
    one at least."""
    if len(ids) * 2 * MAX_BYTES <= most:
        return {*ids}
    sizes = dict(
        fetch(
            "SELECT id, LENGTH(context) + COALESCE(LENGTH(checkpoint), 0) "
            f"FROM {table(Job)} WHERE id IN ({placeholders(len(ids))})",
            ids,
        )
    )
    sums = accumulate(sizes.get(number, 0) for number in ids)
    return {*ids[:1], *(number for number, total in zip(ids, sums, strict=True) if total <= most)}


def arrow_update(
    arrow: str,
    ids: Sequence[int],
    *,
    sets: str = "",
    values: Sequence[Any] = (),
    guard: str = "",
    parameters: Sequence[Any] = (),
) -> tuple[str, list[Any]]:
    """The UPDATE, with its values, that takes the arrow with those of the jobs that are in its
    state and meet the guard.

    `sets` are further assignments with their values, `guard` is SQL with its parameters.
    """
    [source], [target] = t.ARROWS[arrow].sources, t.ARROWS[arrow].targets
    sql = (
        f"UPDATE {table(Job)} SET status = %s, version = version + 1{sets} "
        f"WHERE id IN ({placeholders(len(ids))}) AND status = %s{guard}"
    )
    return sql, [target, *values, *ids, source, *parameters]


@cache
def _columns(shape: type[tuple[Any, ...]]) -> tuple[str, list[int]]:
    """The columns as SQL, and the places of the times among them."""
    names: Sequence[str] = shape._fields  # type: ignore[attr-defined]
    columns = [connection.ops.quote_name(name) for name in names]
    fields = [Job._meta.get_field(name) for name in names]
    times = [place for place, field in enumerate(fields) if isinstance(field, DateTimeField)]
    for place in times:
        columns[place] = time_text(columns[place])
    return ", ".join(columns), times
