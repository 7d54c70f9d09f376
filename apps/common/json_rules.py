"""The JSON values that can be stored: limits of size, depth and characters."""

from __future__ import annotations

import json
import re
from typing import Any

from apps.common.errors import (
    BadText,
    Invalid,
    LimitReached,
    PlatformError,
    TooDeep,
    TooLarge,
)
from apps.common.messages import Message as _

# MariaDB allows fewer than 32 levels.
MAX_DEPTH = 20
MAX_KEYS = 1000
# Items of lists and keys of objects, in all: a list of 10,000 and what is around it. What reads a
# value takes a time that grows with them.
MAX_MEMBERS = 11_000
MAX_BYTES = 262_144
INTEGERS = (-(2**63), 2**63 - 1)

# Some databases cannot store NUL, and none a lone surrogate.
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")


def check_text(text: str, *, field: str = "") -> None:
    """BadText when the text holds NUL or a lone surrogate."""
    if _BAD_TEXT.search(text):
        raise _refusal(
            BadText, field, _("NUL characters and lone surrogates cannot be stored; remove them.")
        )


def check_json(value: Any, *, field: str = "") -> None:
    """Raise a PlatformError when the value cannot be stored.

    The limits: 20 levels, 1,000 keys in all, 11,000 items and keys in all, 256 KB as UTF-8,
    integers of 64 bits, finite numbers, text without NUL and lone surrogates. A tuple is a list.
    """
    check_tree(value, field=field)
    check_size(value, field=field)


def check_size(value: Any, *, field: str = "") -> None:
    """TooLarge when the value, which passed `check_tree`, fills more than 256 KB as UTF-8."""
    size = len(canonical(value).encode())
    if size > MAX_BYTES:
        raise _refusal(
            TooLarge,
            field,
            _("{size} bytes of JSON; the limit is {limit}.", size=size, limit=MAX_BYTES),
        )


def check_tree(value: Any, *, field: str = "") -> None:
    """`check_json` without the limit of bytes, for a value whose text has been measured."""
    keys = members = 0
    level: list[Any] = [value]
    lowest, highest = INTEGERS
    for depth in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for node in level:
            kind = type(node)
            if (kind is int and lowest <= node <= highest) or (kind is str and _is_plain(node)):
                # The usual cases, at the least cost.
                continue
            if depth == MAX_DEPTH and isinstance(node, dict | list | tuple):
                raise _refusal(
                    TooDeep, field, _("More than {limit} levels of nesting.", limit=MAX_DEPTH)
                )
            if isinstance(node, dict):
                keys += len(node)
                for key in node:
                    if type(key) is not str or not _is_plain(key):
                        _check_key(key, field)
                deeper.extend(node.values())
            elif isinstance(node, list | tuple):
                deeper.extend(node)
            else:
                _check_scalar(node, field)
        if keys > MAX_KEYS:
            raise _refusal(
                LimitReached,
                field,
                _("More than {limit} keys in one JSON value; send fewer.", limit=MAX_KEYS),
            )
        members += len(deeper)
        if members > MAX_MEMBERS:
            raise _refusal(
                LimitReached,
                field,
                _("More than {limit} items in one JSON value; send fewer.", limit=MAX_MEMBERS),
            )
        if not deeper:
            return
        level = deeper


def count_members(value: Any) -> int:
    """How many items of lists and keys of objects the value has in all."""
    return sum(members_by_level(value))


def members_by_level(value: Any) -> list[int]:
    """The same for each level of the value, from the outermost one on."""
    members: list[int] = []
    level: list[Any] = [value]
    while level:
        deeper: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                deeper.extend(node.values())
            elif isinstance(node, list | tuple):
                deeper.extend(node)
        if deeper:
            members.append(len(deeper))
        level = deeper
    return members


def _is_plain(text: str) -> bool:
    """Whether the text needs no further check, the usual case."""
    return text.isascii() and "\0" not in text


def _check_key(key: Any, field: str) -> None:
    if not isinstance(key, str):
        raise _refusal(
            Invalid, field, _("{kind} is not a JSON key; use text.", kind=type(key).__name__)
        )
    check_text(key, field=field)


def _check_scalar(node: Any, field: str) -> None:
    if isinstance(node, str):
        check_text(node, field=field)
    elif isinstance(node, bool) or node is None:
        return
    elif isinstance(node, int):
        if not INTEGERS[0] <= node <= INTEGERS[1]:
            raise _refusal(Invalid, field, _("An integer of more than 64 bits; write it as text."))
    elif isinstance(node, float):
        if node != node or node in (float("inf"), float("-inf")):
            raise _refusal(Invalid, field, _("NaN and Infinity are not JSON."))
    else:
        raise _refusal(Invalid, field, _("{kind} is not a JSON value.", kind=type(node).__name__))


def _refusal(kind: type[PlatformError], field: str, message: str) -> PlatformError:
    return kind.field(field, message)


def legible(value: Any, *, indent: int | None = None) -> str:
    """The value as people read it; half of a pair, which no page can be written with, is an
    escape."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()


def canonical(value: Any) -> str:
    """One text for equal JSON values: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values of a field are equal; in JSON 1, 1.0 and true differ, unlike in Python."""
    if one != other:
        return False
    return not isinstance(one, dict | list) or canonical(one) == canonical(other)
