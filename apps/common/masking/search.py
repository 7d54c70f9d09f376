"""Searching texts as people read them: whoever could search for a masked secret would guess it,
piece by piece."""

from __future__ import annotations

import re
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import F, Func, Q, QuerySet, TextField
from django.db.models.sql.where import OR, WhereNode

from apps.common.lookups import IContains, folding
from apps.common.masking import MASK, redact, redact_line
from apps.common.masking.names import patterns

# The texts of so many rows are masked for one page: 2,000 letters take MariaDB 6 ms.
MAX_MASKED = 150


def says(column: str, text: str) -> Q:
    """The rows that have the text, in letters of either case, in the column as it is shown.

    Masking is slow: a list ends its pages at `end_of_masked`, and where texts are long ask for
    `may_say` and `is_said`.
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


def end_of_masked(rows: QuerySet[Any]) -> Any:
    """The key of the row, newest first, down to which MAX_MASKED texts of these rows have to be
    masked; None when there are no more than that, or none has to."""
    where = _unmasked(rows.query.where)
    if where is rows.query.where:
        return None
    possible = rows.all()
    possible.query.where = where or WhereNode()
    edge = possible.order_by("-pk").values_list("pk", flat=True)[MAX_MASKED - 1 : MAX_MASKED + 1]
    last, *older = [*edge] or [None]
    return last if older else None


def _unmasked(condition: Any) -> Any:
    """The condition without what it says of masked texts, so that it may leave more rows; None when
    nothing is left of it, and itself when it says nothing of them."""
    if isinstance(getattr(condition, "lhs", None), Masked):
        return None
    if not isinstance(condition, WhereNode) or condition.negated:
        return condition
    kept = [_unmasked(each) for each in condition.children]
    if all(new is old for new, old in zip(kept, condition.children, strict=True)):
        return condition
    left = [each for each in kept if each is not None]
    if not left or (condition.connector == OR and len(left) < len(kept)):
        return None
    condition = condition.copy()
    condition.children = left
    return condition


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
