"""The statements that code under test sends, and how the database carries them out."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from apps.jobs.services.type_snapshots import type_snapshots

_LIMITED = re.compile(r"^SET STATEMENT max_statement_time = [\d.]+ FOR ")
# Those by which jobs that wait or run are found, on MariaDB and on SQLite.
OPEN_JOBS = {
    *("job_blocked", "job_claim", "job_due", "job_claim_ready", "job_due_scheduled"),
    "job_lease_running",
}


def asked(sql: str) -> list[tuple[Any, ...]]:
    """The rows that the statement gives, which is sent as it stands."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def sent_by(action: Callable[[], Any]) -> list[str]:
    """The statements that the action sends, in their order, without their limits of time. What is
    in a cache stays there, and the lease of ids lasts: on a busy machine one of two actions that
    are compared would renew it."""
    early = SimpleNamespace(monotonic=lambda: 0.0)
    with (
        patch("apps.common.ttl_cache.time", early),
        patch.dict(type_snapshots.__kwdefaults__ or {}, max_age=math.inf),
        patch("apps.jobs.services.slices.MAX_AGE_SECONDS", math.inf),
        patch("apps.common.ids._Lease.is_good", lambda *_: True),
        patch("apps.common.ids._Lease.wants_renewal", lambda *_: False),
        CaptureQueriesContext(connection) as captured,
    ):
        action()
    return [_LIMITED.sub("", query["sql"]) for query in captured]


def locking(statements: Iterable[str]) -> list[str]:
    """Those that may lock rows, or on SQLite the whole database, until their transaction ends."""
    return [
        sql
        for sql in statements
        if re.match("INSERT|UPDATE|DELETE|REPLACE|SAVEPOINT|BEGIN", sql) or "FOR UPDATE" in sql
    ]


@contextmanager
def parameters_up_to(most: int) -> Iterator[None]:
    """SQLite takes no more of them in a statement: where nobody built it with more, 32,766."""
    if connection.vendor != "sqlite":
        yield
        return
    own = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most)
    try:
        yield
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, own)


def is_read(table: type[models.Model], sql: str) -> bool:
    return f'FROM "{table._meta.db_table}"' in sql.replace("`", '"')


def analyze(*tables: type[models.Model]) -> None:
    """Bring what the planner believes of the tables up to date; on MariaDB this commits."""
    for table in tables:
        way = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
        asked(f"{way} {table._meta.db_table}")


def steps_of(sql: str) -> list[dict[str, Any]]:
    """How the database means to carry the statement out, step by step.

    On MariaDB with `table`, `type`, `key`, `rows` and `Extra`, on SQLite with a sentence, `detail`.
    """
    # MySQL 9 prints a tree unless it is asked for rows.
    mysql = connection.vendor == "mysql"
    way = "EXPLAIN FORMAT=TRADITIONAL" if mysql else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{way} {sql}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def explained(sql: str) -> str:
    """The steps in one text, to look for the name of an index or for a sort in it."""
    return " | ".join(str(step) for step in steps_of(sql))


def indexes_on(table: type[models.Model], sql: str) -> set[str]:
    """The indexes by which the statement reads the table: `PRIMARY` where it reads a range of
    ids, an empty name where it reads the whole table."""
    return {
        _index_in_mariadb(step) if connection.vendor == "mysql" else _index_in_sqlite(step)
        for step in _steps_on(table, steps_of(sql))
    }


def is_sorted(table: type[models.Model], sql: str) -> bool:
    """Whether the database has to sort what it reads of the table."""
    steps = steps_of(sql)
    own = _steps_on(table, steps)
    if connection.vendor == "mysql":
        return any("filesort" in (step["Extra"] or "") for step in own)
    beside = {step["parent"] for step in own}
    return any("FOR ORDER BY" in step["detail"] and step["parent"] in beside for step in steps)


def _steps_on(table: type[models.Model], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    name = table._meta.db_table
    if connection.vendor == "mysql":
        return [step for step in steps if step["table"] == name]
    return [step for step in steps if re.search(rf"\b{name}\b", step["detail"])]


def _index_in_mariadb(step: dict[str, Any]) -> str:
    whole = step["type"] == "ALL" or (step["key"], step["type"]) == ("PRIMARY", "index")
    return "" if whole else str(step["key"])


def _index_in_sqlite(step: dict[str, Any]) -> str:
    if re.search(r"\(id[<=>]", step["detail"]):
        return "PRIMARY"
    found = re.search(r"INDEX (\w+)", step["detail"])
    return found[1] if found else ""


def index_reads() -> int:
    """How many entries of indexes this connection to MariaDB has read so far."""
    return sum(count for name, count in _reads().items() if "_rnd" not in name)


def other_reads() -> int:
    """How many rows it has read without an index; asking reads some itself."""
    return sum(count for name, count in _reads().items() if "_rnd" in name)


def _reads() -> dict[str, int]:
    return {name: int(count) for name, count in asked("SHOW SESSION STATUS LIKE 'Handler_read%'")}


def waits_for_a_lock(session: int) -> bool:
    """Whether that session of MariaDB waits for a row that another has locked.

    `information_schema.innodb_trx` would not do: it is renewed only after a tenth of a second in
    which nobody has read it, and tests beside this one may read it as well.
    """
    [(_, _, status)] = asked("SHOW ENGINE INNODB STATUS")
    return any(
        "LOCK WAIT" in each and f"thread id {session}," in each
        for each in status.split("---TRANSACTION ")
    )
