"""Searching JSON columns for values at paths. No index has them: callers bound the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from django.db.models import BooleanField, F, Func, QuerySet, TextField
from django.db.models.functions import Cast

from apps.common.errors import Invalid
from apps.common.json.path import Condition
from apps.common.masking import MASK, is_secret, redact
from apps.common.masking.key_lines import behind_begin
from apps.common.masking.names import patterns
from apps.common.masking.patterns import OPTION_VALUE
from apps.common.messages import Message
from apps.common.messages import Message as _

RowsT = TypeVar("RowsT", bound=QuerySet[Any])
# A number as Python shows those that are very small or large, such as 1e-07.
_POWER = re.compile(r"-?[0-9](\.[0-9]+)?e[-+][0-9]{2,3}")
# The SQL that a column meets a condition, its keys as they are or escaped, and the values.
_Meets = Callable[[str, bool], tuple[str, tuple[Any, ...]]]


def why_masked(condition: Condition) -> Message | None:
    """Why the condition is about a masked value; None if it is not."""
    for key in filter(is_secret, condition.keys):
        return _("Values of {key} are masked, and nobody can search for them.", key=key)
    shown = [redact(each) for each in (*condition.keys, condition.value)]
    if shown == [*condition.keys, condition.value]:
        return None
    return _(
        "{path} is compared with a text that has a password or token; such texts are masked, and "
        "nobody can search for them.",
        path=condition.name,
    )


def require_unmasked(conditions: Iterable[Condition]) -> None:
    """Invalid when one of them is about what is masked: a search would confirm guesses of it."""
    for why in filter(None, map(why_masked, conditions)):
        raise Invalid.field("where", why)


def masked(condition: Condition) -> Condition:
    """The condition, with MASK for its value if it is about a masked value."""
    return condition if why_masked(condition) is None else replace(condition, value=MASK)


def rows_meeting(rows: RowsT, conditions: Iterable[Condition]) -> RowsT:
    """The rows that meet all conditions; Invalid as `require_unmasked`."""
    given = tuple(conditions)
    require_unmasked(given)
    return rows.filter(*map(_Holds, given))


def saying(rows: QuerySet[Any], column: str, text: str) -> Iterable[Any]:
    """The JSON values of the column that have the text somewhere, as a key or within a value."""
    texts = rows.annotate(as_text=Cast(column, TextField())).filter(as_text__contains=text)
    values: Iterable[Any] = texts.order_by().values_list(column, flat=True)
    return values


class _Holds(Func):
    """Whether a row meets the condition, and shows it: behind `--password` in a list and behind the
    begin of a private key all is masked.

    Texts are compared byte by byte: collations fold case and blanks at the end. The text of an
    object or a list is not compared, because the databases write it differently.
    """

    output_field = BooleanField()

    def __init__(self, condition: Condition) -> None:
        super().__init__(F(condition.column))
        self._condition = condition

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> tuple[str, tuple[Any, ...]]:
        return self._as_sql(compiler, self._in_sqlite)

    def as_mysql(self, compiler: Any, connection: Any, **_: Any) -> tuple[str, tuple[Any, ...]]:
        return self._as_sql(compiler, self._in_mysql)

    def _as_sql(self, compiler: Any, meets: _Meets) -> tuple[str, tuple[Any, ...]]:
        column, _params = compiler.compile(self.source_expressions[0])
        # Databases compare keys as they are stored, and Python stores them in ASCII.
        is_ascii = self._condition.name.isascii()
        either = [meets(column, escaped) for escaped in ((False,) if is_ascii else (False, True))]
        return f"({' OR '.join(sql for sql, _ in either)})", sum((v for _, v in either), ())

    def _in_sqlite(self, column: str, escaped: bool) -> tuple[str, tuple[Any, ...]]:
        path = self._condition.in_sql(escaped=escaped)
        value = self._condition.value
        # A number alone is rounded to 15 digits; in a list it stays as it is stored and shown.
        sql = (
            f"CASE WHEN json_type({column}, %s) = 'text' THEN json_extract({column}, %s) = %s "
            f"WHEN json_type({column}, %s) NOT IN ('object', 'array') "
            f"THEN json_extract({column}, %s, %s) = %s END"
        )
        values = (path, path, value, path, path, path, f"[{value},{value}]")
        shown, options = self._is_shown(f"json_extract({column}, %s)", "", escaped)
        return f"({sql}{shown})", (*values, *options)

    def _in_mysql(self, column: str, escaped: bool) -> tuple[str, tuple[Any, ...]]:
        path = self._condition.in_sql(escaped=escaped)
        value = self._condition.value
        is_it = f"CAST(JSON_UNQUOTE(JSON_EXTRACT({column}, %s)) AS BINARY) = CAST(%s AS BINARY)"
        values = [path, value]
        if _POWER.fullmatch(value):
            # MySQL writes numbers in its own way, such as 0.0000001.
            is_number = f"JSON_TYPE(JSON_EXTRACT({column}, %s)) = 'DOUBLE'"
            same = f"JSON_EXTRACT({column}, %s) = CAST(%s AS DOUBLE)"
            is_it = f"({is_it} OR {is_number} AND {same})"
            values += [path, path, value]
        parts = [is_it, f"JSON_TYPE(JSON_EXTRACT({column}, %s)) NOT IN ('OBJECT', 'ARRAY')"]
        values.append(path)
        for depth, part in enumerate(self._condition.path):
            if part == 0:
                # MariaDB and MySQL would take any other value for a list of one.
                parts.append(f"JSON_TYPE(JSON_EXTRACT({column}, %s)) = 'ARRAY'")
                values.append(self._condition.in_sql(depth, escaped=escaped))
        # Whatever the collation of the column says: `apiKey` has two words.
        extracted = f"JSON_UNQUOTE(JSON_EXTRACT({column}, %s))"
        shown, options = self._is_shown(extracted, "(?-i)", escaped)
        return f"({' AND '.join(parts)}{shown})", (*values, *options)

    def _is_shown(self, extracted: str, flags: str, escaped: bool) -> tuple[str, tuple[str, ...]]:
        """The SQL that no option is the element before the one in a list, whose value would be
        masked, and no private key has begun before the value."""
        behind: list[tuple[str, str]] = []
        *above, last = self._condition.path
        if isinstance(last, int) and last and OPTION_VALUE.match(self._condition.value):
            before = replace(self._condition, path=(*above, last - 1))
            behind.append((before.in_sql(escaped=escaped), patterns().option))
        if (line := behind_begin(self._condition.value)) is not None:
            behind.append((self._condition.in_sql(0), line))
        sql = f" AND COALESCE({extracted} REGEXP %s, 0) = 0" * len(behind)
        return sql, tuple(each for path, source in behind for each in (path, f"{flags}{source}"))
