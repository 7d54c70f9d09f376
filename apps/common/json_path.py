"""Values at paths of JSON columns, as people write them: `context.order.city:北京`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from apps.common.messages import Message as _

MAX_CONDITIONS = 3
MAX_PARTS = 8
MAX_VALUE = 200
# Of one condition, as it is written.
MAX_CONDITION = 800
_PART = r"\.[A-Za-z0-9_-]{1,64}|\[[0-9]{1,6}\]"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a JSON column has at a path, as text: 40 and "40" are alike, and no object or list is
    equal to anything. Of the path, texts are keys and numbers are positions in a list."""

    column: str
    path: tuple[str | int, ...]
    value: str

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"

    @property
    def name(self) -> str:
        """`context.items[0].sku`"""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return f"{self.column}{''.join(parts)}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys on the path."""
        return tuple(part for part in self.path if isinstance(part, str))

    def in_sql(self, depth: int | None = None) -> str:
        """`$."items"[0]."sku"`, or its first parts: quoted, a key of digits is no position."""
        parts = self.path[:depth]
        return "$" + "".join(f"[{p}]" if isinstance(p, int) else f'."{p}"' for p in parts)


def read(text: object, columns: Collection[str]) -> Condition:
    """The condition on one of the columns that `path:value` means; ValueError(Message) else."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(_no_condition(str(text), columns))
    name, colon, value = text.partition(":")
    parts = re.findall(r"[.\[][^.\[]*", name)
    column = name[: len(name) - sum(map(len, parts))]
    if not colon or not parts or column not in columns:
        raise ValueError(_no_condition(text, columns))
    if len(parts) > MAX_PARTS:
        raise ValueError(_("{path} has more than {limit} parts.", path=name[:80], limit=MAX_PARTS))
    for part in parts:
        if not re.fullmatch(_PART, part):
            raise ValueError(
                _(
                    "{part} cannot be searched for; parts of a path are .key, with letters, "
                    "digits, _ and -, or [0].",
                    part=part[:80],
                )
            )
    if len(value) > MAX_VALUE:
        raise ValueError(
            _("This text is too long; write at most {limit} letters.", limit=MAX_VALUE)
        )
    path = tuple(int(part[1:-1]) if part[0] == "[" else part[1:] for part in parts)
    return Condition(column, path, value)


def _no_condition(text: str, columns: Collection[str]) -> str:
    example = f"{next(iter(columns))}.order.city:北京"
    return _(
        "{text} is no search in a payload; write a path, a colon and the value, for example "
        "{example}. A path begins with: {columns}.",
        text=text[:80],
        example=example,
        columns=", ".join(columns),
    )


def parted(text: str, columns: Collection[str]) -> list[str]:
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
