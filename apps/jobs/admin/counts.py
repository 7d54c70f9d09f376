"""How many jobs of a type wait and run, counted no further than anybody wants to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from apps.jobs.models import Job
from apps.jobs.rules import transitions as t

MOST_COUNTED = 1_000


@dataclass(frozen=True, kw_only=True)
class Counts:
    ready: int = 0
    scheduled: int = 0
    running: int = 0


def counts_of(types: Sequence[str]) -> dict[str, Counts]:
    """The counts of all these types in one statement, each up to MOST_COUNTED.

    The states are literals, without which SQLite would not use its partial indexes.
    """
    if not types:
        return {}
    table = connection.ops.quote_name(Job._meta.db_table)
    parts = [
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE status = '{status}' AND type = %s"  # noqa: S608 the table's name and literals
        f" LIMIT {MOST_COUNTED}) counted)"
        for _type in types
        for status in (t.READY, t.SCHEDULED, t.RUNNING)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", [name for name in types for _ in range(3)])
        found = cursor.fetchone()
    return {
        name: Counts(ready=found[3 * n], scheduled=found[3 * n + 1], running=found[3 * n + 2])
        for n, name in enumerate(types)
    }
