"""Copies of tables that take the place of their originals, so that few rows and many are used in
the same moments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from apps.common.db import execute, fetch, table


class Copy:
    """A table with the rows and indexes that the model's has now; `name` as SQL."""

    def __init__(self, model: Any, suffix: str) -> None:
        self._of = table(model)
        self.name = connection.ops.quote_name(f"{model._meta.db_table}_{suffix}")
        self._aside = connection.ops.quote_name(f"{model._meta.db_table}_aside")
        execute(f"CREATE TABLE {self.name} LIKE {self._of}")
        execute(f"INSERT INTO {self.name} SELECT * FROM {self._of}")
        fetch(f"ANALYZE TABLE {self.name}")

    @property
    def coming(self) -> str:
        """The renames that put it in its original's place."""
        return f"{self._of} TO {self._aside}, {self.name} TO {self._of}"

    @property
    def leaving(self) -> str:
        return f"{self._of} TO {self.name}, {self._aside} TO {self._of}"


@contextmanager
def in_place(*copies: Copy) -> Iterator[None]:
    """Let each be the table that it is a copy of."""
    execute(f"RENAME TABLE {', '.join(each.coming for each in copies)}")
    try:
        yield
    finally:
        execute(f"RENAME TABLE {', '.join(each.leaving for each in copies)}")
