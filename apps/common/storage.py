"""How many rows tables have and how much room they take, as estimates that cost the same however
large they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection, models

from apps.common.db import fetch, table

# SQLite keeps no estimate: it counts up to this number.
MAX_COUNTED = 10_000


class TableSize(NamedTuple):
    """About how many rows a table has, and its bytes with indexes; None where SQLite keeps no
    figure. `is_capped` means that there are more rows than were counted."""

    rows: int
    bytes: int | None
    is_capped: bool = False


def sizes_of(tables: Iterable[type[models.Model]]) -> dict[type[models.Model], TableSize]:
    """The sizes of these tables, in one statement."""
    wanted = list(tables)
    if connection.vendor != "mysql":
        return _counted(wanted)
    rows = fetch(
        "SELECT table_name, table_rows, data_length + index_length "
        "FROM information_schema.tables WHERE table_schema = DATABASE()"
    )
    known = {name: TableSize(int(count or 0), int(size or 0)) for name, count, size in rows}
    return {model: known[model._meta.db_table] for model in wanted}


def database_size() -> int:
    """The bytes of all tables; of SQLite those of the file."""
    if connection.vendor != "mysql":
        [(size,)] = fetch("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        return int(size)
    [(size,)] = fetch(
        "SELECT SUM(data_length + index_length) FROM information_schema.tables "
        "WHERE table_schema = DATABASE()"
    )
    return int(size or 0)


def _counted(wanted: list[type[models.Model]]) -> dict[type[models.Model], TableSize]:
    limit = MAX_COUNTED + 1
    count = f"(SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT {limit}))"
    [counts] = fetch(f"SELECT {', '.join(count % table(each) for each in wanted)}")
    return {
        model: TableSize(min(count, MAX_COUNTED), None, is_capped=count > MAX_COUNTED)
        for model, count in zip(wanted, counts, strict=True)
    }
