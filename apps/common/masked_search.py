"""Searching texts as people read them: whoever could search for a masked secret would guess it,
piece by piece."""

from __future__ import annotations

import functools
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import F, Func, Q, TextField
from django.db.models.lookups import IContains

from apps.common.conf import conf
from apps.common.masking import IN_QUERY, MASK, letters_of, redacted

# What `masking` hides, as regular expressions of both MariaDB and MySQL; the first group stays.
_NAME = r"[\w.%\[\]\-]"
_BETWEEN = r"[_.%\[\]\-]*"
_WAY = r"(?i)(\b(?:Bearer|Basic)\s+)[\w.~+/=\-]{8,}"
_ADDRESS = r"(://)[^\s/?#\"'<>]+(?=@)"
_VALUE = r"(?:(?:Bearer|Basic)\s+)?[^\s&;#\"'<>]+"


def says(column: str, text: str) -> Q:
    """The rows that have the text, in letters of either case, in the column as it is shown."""
    found = Q(IContains(Masked(F(column)), text))
    # Few texts are masked, because what has not even the rest of it is left out first.
    for part in filter(None, text.split(MASK)):
        found = Q(**{f"{column}__icontains": part}) & found
    return found


class Masked(Func):
    """The text of a column without what `redacted` masks, and on MariaDB and MySQL without a little
    more: a regular expression knows no words, and takes `mytokens=5` for a secret."""

    output_field = TextField()
    function = "redacted"

    def as_mysql(
        self, compiler: Any, connection: BaseDatabaseWrapper, **_: Any
    ) -> tuple[str, tuple[str, ...]]:
        sql, params = compiler.compile(self.source_expressions[0])
        is_mariadb: bool = connection.mysql_is_mariadb  # type: ignore[attr-defined]
        kept = (r"\1" if is_mariadb else "$1") + MASK
        for pattern in (_WAY, _ADDRESS, *_named(tuple(conf.MASKED_KEYS))):
            sql, params = f"REGEXP_REPLACE({sql}, %s, %s)", (*params, pattern, kept)
        return sql, params


@functools.cache
def _named(names: tuple[str, ...]) -> tuple[str, str]:
    """`name=value` and `"name": "value"` with one of the names in the name, whatever is between its
    letters."""
    letters = filter(None, map(letters_of, names))
    # Without any name, what nothing matches.
    spread = "|".join(map(_BETWEEN.join, letters)) or "(?!)"
    name = rf"{_NAME}*(?:{spread}){_NAME}*"
    in_query = rf"[?&;#](?:{'|'.join(sorted(IN_QUERY))})"
    return (
        rf"(?i)((?:{in_query}|(?<!{_NAME}){name})=){_VALUE}",
        rf"(?is)(([\"']){name}\2\s*:\s*([\"']))(?:\\.|(?!\3)[^\\])+",
    )


def _teach(connection: BaseDatabaseWrapper, **_signal: object) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function("redacted", 1, redacted, deterministic=True)


connection_created.connect(_teach, dispatch_uid="common.masked_search")
