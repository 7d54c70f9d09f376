"""Finding jobs by their key, with a bound on what is read."""

from __future__ import annotations

from django.db import connection

from apps.common.db import fetch_each, table
from apps.jobs.models import Job, JobType


def with_key(key: str, *, most: int) -> list[int]:
    """The numbers of the newest jobs with this key, of whatever type: one short range of an index
    for each type."""
    one = (
        f"SELECT id FROM {table(Job)} WHERE type = %s "
        f"AND {connection.ops.quote_name('key')} = %s ORDER BY type DESC, "
        f"{connection.ops.quote_name('key')} DESC, id DESC LIMIT {int(most)}"
    )
    names = JobType.objects.values_list("name", flat=True)
    found = [number for (number,) in fetch_each((one, (name, key)) for name in names)]
    return sorted(found, reverse=True)[:most]
