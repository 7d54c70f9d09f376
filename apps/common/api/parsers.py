"""Reading a request body: one JSON object in UTF-8, of bounded size, depth and number of keys."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import accumulate
from typing import IO, Any

from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from apps.common.errors import (
    DuplicateKey,
    FieldError,
    Invalid,
    LimitReached,
    Malformed,
    TooDeep,
    TooLarge,
    UnsupportedMediaType,
)
from apps.common.json_rules import (
    INTEGERS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_KEYS,
    MAX_MEMBERS,
    check_size,
    check_tree,
)

BATCH_BYTES = 8 * 1024 * 1024
BATCH_ITEMS = 1000
# Items of lists and keys of objects, in all: each is looked at several times.
BATCH_MEMBERS = 200_000
# Python parses this depth safely. Each item is then checked; the error names one that is too deep.
_BATCH_DEPTH = 100

_CHARSETS = {"utf-8", "utf8"}
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# JSON allows no raw NUL and UTF-8 no surrogate, so only escapes can contain them.
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_MARKS = bytes(set(range(256)) - set(b"[{]},"))


class StrictJSONParser(BaseParser):
    """Parses the bodies of all API views; raises the errors of `apps.common.errors`.

    The view's attribute `body_limit` sets the limit: "single" (256 KB) or "batch" (8 MB and
    200,000 items and keys in all, with top-level lists of at most 1,000 items, each within the
    limits of a single body; the objects that the view names in `item_maps` are such lists, too).
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The object in the body. DRF's stream is not used: it knows no limit."""
        context = parser_context or {}
        batch = getattr(context["view"], "body_limit", "single") == "batch"
        request: HttpRequest = context["request"]._request
        body = read_body(request, BATCH_BYTES if batch else MAX_BYTES)
        check_content_headers(request)
        return parse_json(body, batch=batch, maps=getattr(context["view"], "item_maps", ()))


def read_body(request: HttpRequest, limit: int) -> bytes:
    """The body, of at most `limit` bytes; TooLarge or Malformed (cut off, empty) otherwise.

    With a declared length above the limit nothing is read.
    """
    meta = request.META
    declared = meta.get("CONTENT_LENGTH") or ""
    if declared and not (declared.isascii() and declared.isdigit()):
        raise Malformed("Content-Length is not a number; send the length of the body in bytes.")
    # A number of more than 20 digits exceeds every limit; int() of a long one would be slow.
    if len(declared) > 20 or int(declared or 0) > limit:
        raise _too_large(limit)
    body = b""
    try:
        while part := request.read(limit + 1 - len(body)):
            body += part
            if len(body) > limit:
                raise _too_large(limit)
    except OSError as error:
        raise Malformed("The connection broke before the body was complete.") from error
    if declared and len(body) != int(declared):
        raise Malformed(f"The body ended after {len(body)} of {declared} bytes; send it again.")
    if not body:
        raise Malformed("The body is empty; send a JSON object, at least {}.")
    return body


def check_content_headers(request: HttpRequest) -> None:
    """Raise UnsupportedMediaType unless the headers announce plain JSON in UTF-8."""
    if request.content_type != "application/json":
        given = f"{request.content_type[:80]!r} is no" if request.content_type else "No readable"
        raise UnsupportedMediaType(f"{given} content type here; send application/json in UTF-8.")
    charset = (request.content_params or {}).get("charset", "utf-8")
    if charset.lower() not in _CHARSETS:
        raise UnsupportedMediaType(f"The charset {charset[:40]!r} is not read; send UTF-8.")
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip()
    if encoding.lower() not in {"", "identity"}:
        raise UnsupportedMediaType(
            f"Content-Encoding {encoding[:40]!r} is not read; send it plain."
        )


def parse_json(body: bytes, *, batch: bool = False, maps: Collection[str] = ()) -> dict[str, Any]:
    """Parse the bytes to a JSON object; raises a PlatformError that names the mistake."""
    if body.startswith(_BYTE_ORDER_MARKS):
        raise Malformed("The body starts with a byte order mark; send plain UTF-8 without one.")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"Byte {error.start} of the body is not UTF-8.") from error
    depth, members = _measure(body)
    limit = _BATCH_DEPTH if batch else MAX_DEPTH
    if depth > limit:
        raise TooDeep(f"The body is nested {depth} levels deep; at most {limit} are read.")
    if batch and members > BATCH_MEMBERS:
        raise LimitReached(
            f"The body has more than {BATCH_MEMBERS} items and keys; send fewer at a time."
        )
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"The body is not JSON from {where} on.") from error
    if not isinstance(value, dict):
        raise Malformed(f"The body is {_kind(value)}; send a JSON object: {{…}}.")
    # There are at least as many colons as keys, so few bodies need the slow check of all values.
    is_large = members > MAX_MEMBERS or body.count(b":") > MAX_KEYS
    walk = is_large or _SUSPECT_ESCAPE.search(body) is not None
    if batch:
        measure = len(body) > MAX_BYTES
        _check_batch(value, maps, walk=walk or depth > MAX_DEPTH, measure=measure)
    elif walk:
        check_tree(value)
    return value


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
                f"A batch holds at most {BATCH_ITEMS} items and this one {len(member)}; split it.",
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


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes; send less at a time.")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "an array"}
    return names.get(type(value), "a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        name = twice[:80].encode(errors="replace").decode()
        message = f"The key {name!r} occurs twice in one object; name each key once."
        raise DuplicateKey(message, errors=[FieldError(name, "duplicate_key", message)])
    return value


def _integer(digits: str) -> int:
    # Longer ones are not converted: the time of int() grows with the square of the length.
    if len(digits) <= 20 and INTEGERS[0] <= (value := int(digits)) <= INTEGERS[1]:
        return value
    raise Invalid(f"The integer {digits[:24]} has more than 64 bits; write it as a string.")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Invalid(f"The number {digits[:24]} is out of range; write it as a string.")
    return value


def _constant(name: str) -> float:
    raise Invalid(f"{name} is not a JSON number; use null or a string.")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
