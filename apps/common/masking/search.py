"""Searching texts as people read them: whoever could search for a masked secret would guess it,
piece by piece."""

from __future__ import annotations

import re
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import F, Func, Q, TextField

from apps.common.lookups import IContains, folding
from apps.common.masking import MASK, redact, redact_line
from apps.common.masking.names import patterns


def says(column: str, text: str) -> Q:
    """The rows that have the text, in letters of either case, in the column as it is shown.

    MariaDB masks 10 KB in 40 ms: where many rows may be long, ask for `may_say` and `is_said`.
    """
    # Few texts are masked, because what has not even the rest of it is left out first.
    return may_say(column, text) & Q(IContains(Masked(F(column)), text))


def may_say(column: str, text: str) -> Q:
    """The rows that have the text in the column as it is stored, so perhaps as it is shown."""
    found = Q()
    for part in filter(None, text.split(MASK)):
        found &= Q(**{f"{column}__icontains": part})
    return found


def is_said(value: str, text: str) -> bool:
    """Whether the value has the text, in letters of either case, as it is shown."""
    return re.search(folding(text), redact(value)) is not None


class Masked(Func):
    """The text of a column as `redact` shows it, by the same regular expressions."""

    output_field = TextField()
    function = "redacted"

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        # The function cannot ask the database for names while that works on this statement.
        patterns()
        return self.as_sql(compiler, connection)

    def as_mysql(
        self, compiler: Any, connection: BaseDatabaseWrapper, **_: Any
    ) -> tuple[str, tuple[str, ...]]:
        sql, params = compiler.compile(self.source_expressions[0])
        is_mariadb: bool = connection.mysql_is_mariadb  # type: ignore[attr-defined]
        kept = (r"\1" if is_mariadb else "$1") + MASK
        for source in patterns().sources:
            # Whatever the collation of the column says: `apiKey` has two words.
            sql, params = f"REGEXP_REPLACE({sql}, %s, %s)", (*params, f"(?-i){source}", kept)
        return sql, params


def _teach(connection: BaseDatabaseWrapper, **_signal: object) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function("redacted", 1, redact_line, deterministic=True)


connection_created.connect(_teach, dispatch_uid="common.masking.search")
