"""Bad bodies: bytes that are no JSON object, and values that no field takes."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.environment import Deal
from tests.integration.api.contract import document
from tests.integration.api.endpoints import BASE, Endpoint

SINGLE_BYTES = 262_144
BATCH_BYTES = 8 * 1024 * 1024

Body = dict[str, Any]


@dataclass(frozen=True)
class BadBody:
    """`make` gets a good body and gives the bytes to send; a limit is that of the endpoint."""

    name: str
    make: Callable[[Body, int], bytes]
    code: str = "malformed"
    status: int = 400
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def _bytes(body: object) -> bytes:
    return json.dumps(body).encode()


def _plain(raw: bytes) -> Callable[[Body, int], bytes]:
    return lambda good, limit: raw


def _with(extra: str) -> Callable[[Body, int], bytes]:
    """The good body with a further member, as text."""
    return lambda good, limit: _bytes(good)[:-1] + f', "x": {extra}}}'.encode()


def _sent_as(content_type: str) -> BadBody:
    return BadBody(
        f"sent as {content_type or 'nothing'}",
        lambda good, limit: _bytes(good),
        "unsupported_media_type",
        415,
        content_type,
    )


def _twice(good: Body, limit: int) -> bytes:
    name, value = next(iter(good.items()))
    return _bytes({name: value})[:-1] + b", " + _bytes(good)[1:]


def _padded(good: Body, limit: int) -> bytes:
    body = _bytes(good)
    return body + b" " * (limit + 1 - len(body))


# By the fields and the limit of the address.
OWN_BODIES = [
    BadBody("same key twice", _twice, "duplicate_key"),
    BadBody("unknown field", _with("1"), "unknown_field"),
    BadBody(
        "known name in other case",
        lambda good, limit: _bytes({**good, next(iter(good)).upper(): 1}),
        "unknown_field",
    ),
    BadBody("longer than the limit", _padded, "too_large", 413),
]
# One or two of each kind; tests/unit/common/test_parsers.py has them all.
BODIES = [
    BadBody("empty", _plain(b"")),
    BadBody("truncated", lambda good, limit: _bytes(good)[:-1]),
    BadBody("array", lambda good, limit: _bytes([good])),
    BadBody("byte order mark", lambda good, limit: b"\xef\xbb\xbf" + _bytes(good)),
    BadBody("no UTF-8", lambda good, limit: _bytes(good)[:-1] + b', "x": "\xff"}'),
    BadBody("NaN", _with("NaN"), "invalid"),
    BadBody("65 bits", _with(str(2**63)), "invalid"),
    BadBody("nested 25 deep", _with("[" * 24 + "]" * 24), "too_deep"),
    BadBody("nested 100,000 deep and cut", _with("[" * 100_000), "too_deep"),
    BadBody("escaped key twice", _with('{"a": 1, "\\u0061": 2}'), "duplicate_key"),
    BadBody("1,001 keys", _with(json.dumps({str(n): n for n in range(1001)})), "limit_reached"),
    BadBody("escaped NUL", _with('"\\u0000"'), "bad_text"),
    BadBody("lone surrogate", _with('["\\ud800"]'), "bad_text"),
    BadBody(
        "declared longer than the limit",
        lambda good, limit: _bytes(good),
        "too_large",
        413,
        headers={"Content-Length": str(BATCH_BYTES + 1)},
    ),
    BadBody(
        "declared longer than any number",
        lambda good, limit: _bytes(good),
        "too_large",
        413,
        headers={"Content-Length": "9" * 5000},
    ),
    BadBody(
        "declared by no number",
        lambda good, limit: _bytes(good),
        headers={"Content-Length": "five"},
    ),
    BadBody(
        "gzip",
        lambda good, limit: gzip.compress(_bytes(good)),
        "unsupported_media_type",
        415,
        headers={"Content-Encoding": "gzip"},
    ),
    _sent_as(""),
    _sent_as("text/plain"),
    _sent_as("application/x-www-form-urlencoded"),
    _sent_as("multipart/form-data"),
    _sent_as("application/json; charset=utf-16"),
]

# What no field takes, whatever its kind.
_ODD: list[Any] = [[[]], [{}], {"$ne": None}, 5.5, "\u0000", "\ud800"]
_NO_JSON: list[Any] = ["\u0000", "\ud800", {"\ud800": 1}, [["\u0000"]], 2**63]
_NO_NUMBER = ["5", " 5 ", "٥", "", "abc", True, False, 5.0, 1e3, [], [5], {}, -(2**63), 2**63]
_NO_TEXT_NUMBER = ["5", " 5 ", "", "abc", True, False, [], [5], {}, -(2**63)]
_NO_TEXT = [True, 0, 5, [], ["a"], {}, {"a": "b"}]
_NO_INSTANT = [
    *_NO_TEXT,
    1_772_442_000,
    "",
    "now",
    "2026-03-02",
    "09:00:00Z",
    "2026-03-02T09:00:00",
    "2026-03-02T09:00Z",
    "2026-03-02 09:00:00Z",
    "2026-02-30T09:00:00Z",
    "2026-13-01T09:00:00Z",
    "2026-03-02T24:00:00Z",
    "2026-12-31T23:59:60Z",
    "2026-03-02T09:00:00+24:00",
    "2026-03-02T09:00:00 +01:00",
    "0000-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-00:01",
    "10000-01-01T00:00:00Z",
    "٢٠٢٦-03-02T09:00:00Z",
    "P999999999D",
]
_NO_DECIMAL = [
    *_NO_TEXT,
    "",
    "abc",
    "5.0",
    "-1",
    "+1",
    " 5",
    "5\n",
    "0x5",
    "1e3",
    "５",
    str(2**63),
    "9" * 20,
    "9" * 5000,
]
_NO_TEXTS = [True, 5, "uid_a", {}, [5], [None], [[]]]
_NO_NAMES = [*_NO_TEXTS, [""], ["a b"], ["á"], ["a", "a"], ["a\n"]]


def wrong_values(schema: Mapping[str, Any]) -> list[Any]:
    """What a field with this schema must refuse."""
    return [*_wrong_for_itself(schema), *_wrong_for_its_kind(schema)]


def _wrong_for_itself(schema: Mapping[str, Any]) -> Iterator[Any]:
    """What lies just beyond the limits and the choices of this one field."""
    schema = _typed(schema)
    if "type" not in schema:
        # Any JSON that can be stored.
        yield from _NO_JSON
        return
    if not schema.get("nullable"):
        yield None
    if "enum" in schema:
        first = schema["enum"][0]
        yield from ["", "nonsense", first.upper(), f"{first} ", f" {first}"]
    elif schema["type"] in ("integer", "number"):
        yield from [schema["minimum"] - 1, schema["maximum"] + 1]
    elif schema["type"] == "array":
        yield [f"uid_{n}" for n in range(schema["maxItems"] + 1)]
    elif schema["type"] == "string" and not (_is_instant(schema) or _is_decimal(schema)):
        yield "x" * (schema["maxLength"] + 1)
        if "pattern" in schema and schema.get("minLength"):
            yield ""


def _wrong_for_its_kind(schema: Mapping[str, Any]) -> Iterator[Any]:
    """What no field of the kind takes."""
    schema = _typed(schema)
    if "type" not in schema:
        return
    if schema["type"] == "object":
        yield from [[], [[]], "{}", 5, True, "\ud800"]
    else:
        yield from [odd for odd in _ODD if schema["type"] != "number" or odd != 5.5]
    if "enum" in schema:
        yield from _NO_TEXT
    elif schema["type"] == "integer":
        yield from _NO_NUMBER
    elif schema["type"] == "number":
        yield from _NO_TEXT_NUMBER
    elif schema["type"] == "boolean":
        yield from [0, 1, "true", "false", "", "on", [], {}]
    elif schema["type"] == "array":
        yield from _NO_NAMES if "pattern" in schema["items"] else _NO_TEXTS
    elif _is_instant(schema):
        yield from _NO_INSTANT
    elif _is_decimal(schema):
        yield from _NO_DECIMAL
    elif schema["type"] == "string":
        yield from _NO_TEXT
        if "pattern" in schema:
            yield from [" ", "\t\n", "\u3000"]


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    schema = resolved(schema)
    return {**schema, "type": "object"} if "$ref" in schema.get("oneOf", [{}])[0] else schema


def _is_instant(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "date-time"


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("pattern", "").startswith("^[0-9]"))


class Dealt:
    """The wrong values of each field of a walk: all of its own, and a share of those of its kind,
    whose fields are dealt all of them between them."""

    def __init__(self) -> None:
        self._deals: dict[str, Deal] = {}

    def __call__(self, schema: Mapping[str, Any]) -> list[Any]:
        kind = [*_wrong_for_its_kind(schema)]
        deal = self._deals.setdefault(repr(kind), Deal(3))
        return [*_wrong_for_itself(schema), *deal(kind)]


def _spoils_the_body(value: object) -> bool:
    """Whether it is refused before any field is looked at, so that none is named."""
    return value == 2**63 or any(text in json.dumps(value) for text in (r"\u0000", r"\ud800"))


def refuse_all(wrong: Mapping[str, list[Any]], send: Callable[[Body], set[str]]) -> None:
    """Every wrong value of every field; `send` gives the fields that the answer to some names.

    Fields are checked one by one and all that are wrong are named, so one value of each goes into
    a request; what no answer names, because it takes more than its field to refuse it, goes alone,
    and so does what no body may have anywhere.
    """
    for name, values in wrong.items():
        for value in filter(_spoils_the_body, values):
            send({name: value})
    left = {n: [*itertools.filterfalse(_spoils_the_body, values)] for n, values in wrong.items()}
    while left := {name: values for name, values in left.items() if values}:
        wrong = {name: values[0] for name, values in left.items()}
        named = send(wrong) & wrong.keys()
        if not named:
            for name, value in wrong.items():
                send({name: value})
        for name in named or wrong:
            del left[name][0]


def fields_of(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    """The fields of its body as OpenAPI documents them, in any of its shapes, and the names of
    those that are required in each."""
    path = BASE + endpoint.route
    for kind in ("str", "path", "int"):
        path = path.replace(f"<{kind}:", "{")
    operation = document()["paths"][path.replace(">", "}").replace("{pk}", "{id}")]
    body = operation[endpoint.method.lower()]["requestBody"]["content"]["application/json"]
    schema = resolved(body["schema"])
    shapes = [resolved(shape) for shape in schema.get("oneOf", [schema])]
    fields = {name: field for shape in shapes for name, field in shape["properties"].items()}
    required = set.intersection(*({*shape.get("required", [])} for shape in shapes))
    return fields, sorted(required)


def resolved(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema itself, where a reference stands for it."""
    for part in [schema, *schema.get("allOf", [])]:
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return {**document()["components"]["schemas"][name], **schema}
    return dict(schema)
