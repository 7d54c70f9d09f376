"""Finding jobs by their key, with a bound on what is read."""

from __future__ import annotations

from django.db import connection

from apps.common.db import fetch, table, union_all
from apps.jobs.models import Job, JobType

# SQLite takes 500 parts of one statement.
_AT_ONCE = 200


def with_key(key: str, *, most: int) -> list[int]:
    """The numbers of the newest jobs with this key, of whatever type: one short range of an index
    for each type."""
    one = (
        f"SELECT id FROM {table(Job)} WHERE type = %s "  # noqa: S608
        f"AND {connection.ops.quote_name('key')} = %s ORDER BY type DESC, "
        f"{connection.ops.quote_name('key')} DESC, id DESC LIMIT {int(most)}"
    )
    names = list(JobType.objects.values_list("name", flat=True))
    found: list[int] = []
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        parameters = [part for name in some for part in (name, key)]
        found += [number for (number,) in fetch(union_all([one] * len(some)), parameters)]
    return sorted(found, reverse=True)[:most]
