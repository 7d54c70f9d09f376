"""JSON read from the text of strangers: of bounded depth, number of keys and size."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Collection
from itertools import accumulate
from typing import Any

from apps.common.errors import DuplicateKey, Invalid, LimitReached, Malformed, TooDeep
from apps.common.json_rules import (
    INTEGERS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_KEYS,
    MAX_MEMBERS,
    check_json,
    check_size,
    check_tree,
)
from apps.common.messages import Message as _

BODY = _("The body")
BATCH_ITEMS = 1000
# Items of lists and keys of objects, in all: each is looked at several times.
BATCH_MEMBERS = 200_000
# Python parses this depth safely. Each item is then checked; the error names one that is too deep.
_BATCH_DEPTH = 100

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# JSON allows no raw NUL and UTF-8 no surrogate, so only escapes can contain them.
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_MARKS = bytes(set(range(256)) - set(b"[{]},"))


def parse_json(
    body: bytes, *, what: str = BODY, batch: bool = False, maps: Collection[str] = ()
) -> dict[str, Any]:
    """Parse the bytes to a JSON object; raises a PlatformError that names the mistake in `what`.

    The caller limits its bytes. With `batch`, lists at the top have at most 1,000 items, each
    within the limits of a single one; the objects that `maps` names are such lists, too.
    """
    value, depth, members = _decoded(body, what, batch=batch)
    if not isinstance(value, dict):
        raise Malformed(
            _("{what} is {kind}; send a JSON object: {{…}}.", what=what, kind=_kind(value))
        )
    # There are at least as many colons as keys, so few bodies need the slow check of all values.
    is_large = members > MAX_MEMBERS or body.count(b":") > MAX_KEYS
    walk = is_large or _SUSPECT_ESCAPE.search(body) is not None
    if batch:
        measure = len(body) > MAX_BYTES
        _check_batch(value, maps, walk=walk or depth > MAX_DEPTH, measure=measure)
    elif walk:
        check_tree(value)
    return value


def parse_text(text: str, *, what: str) -> Any:
    """Parse what a person typed to any JSON value that can be stored (see `check_json`)."""
    value, _depth, _members = _decoded(text.encode(errors="surrogatepass"), what)
    check_json(value)
    return value


def _decoded(body: bytes, what: str, *, batch: bool = False) -> tuple[Any, int, int]:
    """The value, and at most how deep it is nested and how many items and keys it has."""
    if body.startswith(_BYTE_ORDER_MARKS):
        raise Malformed(
            _("{what} starts with a byte order mark; send plain UTF-8 without one.", what=what)
        )
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(
            _("{what} is not UTF-8 at byte {number}.", what=what, number=error.start)
        ) from error
    depth, members = _measure(body)
    limit = _BATCH_DEPTH if batch else MAX_DEPTH
    if depth > limit:
        raise TooDeep(
            _(
                "{what} is nested {depth} levels deep; at most {limit} are read.",
                what=what,
                depth=depth,
                limit=limit,
            )
        )
    if batch and members > BATCH_MEMBERS:
        raise LimitReached(
            _(
                "{what} has more than {limit} items and keys; send fewer at a time.",
                what=what,
                limit=BATCH_MEMBERS,
            )
        )
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise Malformed(
            _(
                "{what} is not JSON from line {line}, column {column} on.",
                what=what,
                line=error.lineno,
                column=error.colno,
            )
        ) from error
    return value, depth, members


def _measure(body: bytes) -> tuple[int, int]:
    """At most how deep it is nested and how many items and keys it has, nearly exact where there
    are many; what is empty counts like what has one.

    Measured before parsing, because Python's parser is slow, and fails on deep nesting.
    """
    opened = _count(body, b"[{")
    members = _count(body, b"[{,")
    if opened <= MAX_DEPTH and members <= MAX_MEMBERS:
        return opened, members
    if b"\\" in body:
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # A key and its text have two quotes each.
    named = body.count(b'"') // 4
    if named > BATCH_MEMBERS:
        return 0, named
    # Now every quote opens or closes a string, so every other piece lies outside of strings.
    marks = b"".join(body.split(b'"')[::2]).translate(None, _NOT_MARKS)
    depth = max(accumulate(array("b", marks.translate(_STEPS, b","))), default=0)
    return depth, _count(marks, b"[{,")


def _count(body: bytes, marks: bytes) -> int:
    return sum(body.count(mark) for mark in marks)


def _check_batch(
    value: dict[str, Any], maps: Collection[str], *, walk: bool, measure: bool
) -> None:
    envelope = {}
    for name, member in value.items():
        is_map = name in maps and isinstance(member, dict)
        if not (is_map or isinstance(member, list)):
            envelope[name] = member
            continue
        if len(member) > BATCH_ITEMS:
            raise Invalid.field(
                name,
                _(
                    "A batch holds at most {limit} items and this one {count}; split it.",
                    limit=BATCH_ITEMS,
                    count=len(member),
                ),
            )
        places = (
            {f"{name}.{key}": {key: item} for key, item in member.items()}
            if is_map
            else {f"{name}[{position}]": item for position, item in enumerate(member)}
        )
        for place, item in places.items():
            if walk:
                check_tree(item, field=place)
            if measure:
                check_size(item, field=place)
    if walk:
        check_tree(envelope)
    if measure:
        check_size(envelope)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: _("a boolean"), str: _("a string"), list: _("an array")}
    return names.get(type(value), _("a number"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        name = twice[:80].encode(errors="replace").decode()
        message = _("The key {name!r} occurs twice in one object; name each key once.", name=name)
        raise DuplicateKey.field(name, message)
    return value


def _integer(digits: str) -> int:
    # Longer ones are not converted: the time of int() grows with the square of the length.
    if len(digits) <= 20 and INTEGERS[0] <= (value := int(digits)) <= INTEGERS[1]:
        return value
    raise Invalid(
        _("The integer {digits} has more than 64 bits; write it as a string.", digits=digits[:24])
    )


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Invalid(
            _("The number {digits} is out of range; write it as a string.", digits=digits[:24])
        )
    return value


def _constant(name: str) -> float:
    raise Invalid(_("{name} is not a JSON number; use null or a string.", name=name))


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
