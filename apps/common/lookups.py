"""How texts are compared: alike on every database.

`=`, `IN`, unique keys and the lookups `contains`, `startswith` and `endswith` are exact, letter by
letter. Their siblings with an `i` fold case, and nothing else: `Ä` finds `ä`, but neither `a` nor
an `A` with a combining sign. Databases fold as their collations and their age have it (SQLite
ASCII alone, MariaDB accents too), so the letters to look for are spelt out here.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from typing import Any, ClassVar

from django.db.models import CharField, TextField, lookups

# No letter with two cases is beyond.
_LAST_CASED = 0x1E943


def folding(text: str) -> str:
    """A regular expression that finds the text in letters of either case; in Python, SQLite,
    MariaDB and MySQL, whose flags for this differ from each other."""
    return "".join(f"[{_cases()[x]}]" if x in _cases() else re.escape(x) for x in text)


@functools.cache
def _cases() -> dict[str, str]:
    """Each letter with several cases, and all of them: `σ` is also `Σ` and `ς`.

    A to Z have two, as in SQLite: the sign for Kelvin is no `k`.
    """
    families: defaultdict[tuple[bool, str], str] = defaultdict(str)
    for letter in map(chr, range(_LAST_CASED + 1)):
        if letter.lower() != letter.upper():
            families[letter.isascii(), letter.casefold()] += letter
    return {letter: each for each in families.values() if len(each) > 1 for letter in each}


class _Exact:
    """A pattern of letters that are compared as they are; `form` is that of SQLite's GLOB."""

    form: ClassVar[str]

    def as_sqlite(self: Any, compiler: Any, connection: Any) -> Any:
        if not self.rhs_is_direct_value():
            return super().as_sql(compiler, connection)  # type: ignore[misc]
        sql, params = self.process_lhs(compiler, connection)
        escaped = re.sub(r"([*?[])", r"[\1]", str(self.rhs))
        return f"{sql} GLOB %s", (*params, self.form.format(escaped))


class _Folded:
    """A pattern of letters of either case; `form` is that of a regular expression."""

    form: ClassVar[str]

    def as_sqlite(self: Any, compiler: Any, connection: Any) -> Any:
        if str(self.rhs).isascii():
            # LIKE means the same by these letters, in a tenth of the time.
            return super().as_sql(compiler, connection)  # type: ignore[misc]
        return self.as_mysql(compiler, connection)

    def as_mysql(self: Any, compiler: Any, connection: Any) -> Any:
        if not self.rhs_is_direct_value():
            return super().as_sql(compiler, connection)  # type: ignore[misc]
        sql, params = self.process_lhs(compiler, connection)
        return f"{sql} REGEXP %s", (*params, self.form.format(folding(str(self.rhs))))


class Contains(_Exact, lookups.Contains):
    form = "*{}*"


class StartsWith(_Exact, lookups.StartsWith):
    form = "{}*"


class EndsWith(_Exact, lookups.EndsWith):
    form = "*{}"


class IContains(_Folded, lookups.IContains):
    form = "{}"


class IStartsWith(_Folded, lookups.IStartsWith):
    form = r"\A{}"


class IEndsWith(_Folded, lookups.IEndsWith):
    form = r"{}(?![\s\S])"


class IExact(_Folded, lookups.IExact):
    form = r"\A{}(?![\s\S])"


def register() -> None:
    """Have these used for all texts."""
    for lookup in (Contains, StartsWith, EndsWith, IContains, IStartsWith, IEndsWith, IExact):
        CharField.register_lookup(lookup)
        TextField.register_lookup(lookup)
