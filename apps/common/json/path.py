"""Values at paths of JSON columns, as people write them: `context.order.city:北京`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from apps.common.messages import Message as _

MAX_CONDITIONS = 3
MAX_PARTS = 8
MAX_VALUE = 200
# The most letters of one condition as it is written.
MAX_CONDITION = 800
_PLAIN = r"[\w-]{1,64}"
# SQLite knows no escape within the quotes.
_PART = rf"\.{_PLAIN}|\.\"[^\"\\]{{1,64}}\"|\[[0-9]{{1,6}}\]"


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition that a JSON column has a value at a path, compared as text: 40 and "40" are
    alike, and no object or list is equal to anything. Texts in the path are keys, numbers are
    positions in a list."""

    column: str
    path: tuple[str | int, ...]
    value: str

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"

    @property
    def name(self) -> str:
        """`context.items[0].sku`"""
        return self.column + "".join(map(_written, self.path))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys on the path."""
        return tuple(part for part in self.path if isinstance(part, str))

    def in_sql(self, depth: int | None = None, *, escaped: bool = False) -> str:
        """`$."items"[0]."sku"`, or its first parts: quoted, a key of digits is no position.

        `escaped`: with keys as JSON in ASCII has them.
        """

        def written(part: str | int) -> str:
            if isinstance(part, int):
                return f"[{part}]"
            return f".{json.dumps(part)}" if escaped else f'."{part}"'

        return "$" + "".join(map(written, self.path[:depth]))


def read(text: object, columns: Collection[str]) -> Condition:
    """The condition on one of the columns that `path:value` means; ValueError(Message) else."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(_no_condition(str(text), columns))
    column = next((each for each in columns if re.match(rf"{re.escape(each)}[.\[]", text)), "")
    if not column or ":" not in text:
        raise ValueError(_no_condition(text, columns))
    # An empty part is none and ends the path.
    found = re.match(rf"((?:{_PART})*)(.*)", text[len(column) :], re.DOTALL)
    parts, rest = re.findall(_PART, found[1]), found[2]  # type: ignore[index]
    if rest[:1] != ":":
        before = parts.pop() if parts and rest[:1] not in ".[" else ""
        wrong = re.match(r"[.\[]?[^.\[:]*", rest)[0]  # type: ignore[index]
        raise ValueError(
            _(
                "{part} cannot be searched for; parts of a path are .key, with letters, digits, _ "
                'and -, ."any key" or [0].',
                part=f"{before}{wrong}"[:80],
            )
        )
    if len(parts) > MAX_PARTS:
        path = text.partition(":")[0]
        raise ValueError(_("{path} has more than {limit} parts.", path=path[:80], limit=MAX_PARTS))
    value = rest[1:]
    if len(value) > MAX_VALUE:
        raise ValueError(
            _("This text is too long; write at most {limit} letters.", limit=MAX_VALUE)
        )
    return Condition(column, tuple(map(_read, parts)), value)


def _read(part: str) -> str | int:
    return int(part[1:-1]) if part[0] == "[" else part[1:].strip('"')


def _written(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if re.fullmatch(_PLAIN, part) else f'."{part}"'


def _no_condition(text: str, columns: Collection[str]) -> str:
    example = f"{next(iter(columns))}.order.city:北京"
    return _(
        "{text} is no search in a payload; write a path, a colon and the value, for example "
        "{example}. A path begins with: {columns}.",
        text=text[:80],
        example=example,
        columns=", ".join(columns),
    )


def split_conditions(text: str, columns: Collection[str]) -> list[str]:
    """The conditions that are typed with blanks between them, with either colon.

    Values may have blanks, too.
    """
    begin = _begin(columns)
    pairs = (
        re.split("[:：]", each, maxsplit=1) for each in re.split(rf"\s+(?={begin})", text.strip())
    )
    return [":".join(part.strip() for part in pair) for pair in pairs]


def is_condition(text: str, columns: Collection[str]) -> bool:
    """Whether the text begins like a condition; `context.to: required` is a sentence."""
    return re.match(rf"\s*{_begin(columns)}\S", text) is not None


def _begin(columns: Collection[str]) -> str:
    return rf"(?:{'|'.join(map(re.escape, columns))})(?:{_PART})+[:：]"


# --- paths alone ---------------------------------------------------------------------------------
def read_path(text: str) -> tuple[str | int, ...]:
    """The parts of `order.items[0].sku`, written as in a condition; "" has none.

    ValueError(Message) for no path.
    """
    whole = text if text[:1] in ("", "[") else f".{text}"
    if not re.fullmatch(rf"(?:{_PART})*", whole):
        raise ValueError(
            _(
                "{text} is no path; write for example order.items[0].sku.",
                text=text[:80],
            )
        )
    parts = re.findall(_PART, whole)
    if len(parts) > MAX_PARTS:
        raise ValueError(_("{path} has more than {limit} parts.", path=text[:80], limit=MAX_PARTS))
    return tuple(map(_read, parts))


def value_at(value: object, path: tuple[str | int, ...]) -> object:
    """Return the part of the JSON value at the path; LookupError for nothing."""
    for part in path:
        kind = list if isinstance(part, int) else dict
        if not isinstance(value, kind):
            raise LookupError(part)
        value = value[part]  # type: ignore[index]
    return value
