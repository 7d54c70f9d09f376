"""The costliest requests: bodies for each kind of endpoint, and schemas with their values.

The benchmark measures them; tests send them for their answers and for how their cost grows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from apps.common.api.parsers import BATCH_BYTES
from apps.common.json.schema import FORMATS
from apps.common.json.text import BATCH_ITEMS, BATCH_MEMBERS
from tests import factories

ROWS: dict[str, Any] = {"type": "object", "properties": {"rows": {"items": {"type": "string"}}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "free": {},
    "texts": ROWS,
    "either": {"type": "object", "anyOf": [ROWS] * 5},
    "names": {"type": "object", "properties": {"rows": {"items": {"required": [*"abcdefgh"]}}}},
}
# Envelopes take some of the budget.
FEW, MANY = BATCH_MEMBERS // BATCH_ITEMS - 20, 9_900
FULL = BATCH_BYTES - 1000
LARGE = BATCH_MEMBERS // MANY


_numbers = count(1)


class Body(NamedTuple):
    """A body of any size for an address; the largest one that is read whole has the status.

    One that exceeds a limit is refused before it is read item by item.
    """

    name: str
    address: str
    make: Callable[[int], bytes]
    largest: int
    status: int
    exceeds: bool = False


def make_rows() -> None:
    """What the bodies name: job types, pools, a template and a group."""
    for name, schema in SCHEMAS.items():
        factories.job_type(name, params_schema=schema)
    factories.job_type("points", pool=True)
    factories.job_type("places", pool=True, params_schema=SCHEMAS["either"])
    factories.template("photo-check")
    factories.group("gid_sales", ["uid_alice"])


def rows(item: Any, times: int) -> dict[str, Any]:
    return {"rows": [item] * times}


def jobs(type_: str, context: Any, times: int, **more: Any) -> bytes:
    return json.dumps({"jobs": [{"type": type_, "context": context, **more}] * times}).encode()


def reports(field: str, times: int, **item: Any) -> bytes:
    items = [{"id": str(n), "lease_token": "token", **item} for n in range(times)]
    return json.dumps({"worker": "pi-1", field: items}).encode()


def pool(context: Any, times: int) -> bytes:
    keys = [f"point-{n}" for n in range(times)]
    body = {"items": dict.fromkeys(keys, 1), "contexts": dict.fromkeys(keys, context)}
    return json.dumps(body).encode()


def task(members: int) -> bytes:
    task = {"title": "A", "executor": "uid_alice", "template": "photo-check"}
    return json.dumps({**task, "params": rows(1, members)}).encode()


def template(members: int) -> bytes:
    schema = {"type": "object", "enum": [*range(members)], "items": {"$ref": "#"}}
    return json.dumps({"name": f"template-{next(_numbers)}", "schema": schema}).encode()


def of_pieces(begin: str, piece: str, end: str) -> Callable[[int], bytes]:
    """Bodies of so many bytes that repeat a piece."""
    return lambda size: (begin + piece * (size // len(piece)) + end).encode()


UNKNOWN = {f"fields{n}": 1 for n in range(FEW)}
BODIES = [
    *(
        Body(name, "jobs/", of_pieces(begin, piece, end), FULL, 400, exceeds=True)
        for name, begin, piece, end in (
            ("numbers", '{"jobs":[{"context":{"rows":[', "1,", "1]}}]}"),
            ("empty texts", '{"jobs":[', '"",', "1]}"),
            ("empty lists", '{"jobs":[', "[],", "1]}"),
            ("brackets", "", "[", ""),
        )
    ),
    Body(
        "within each limit but one",
        "jobs/",
        lambda n: jobs("free", rows(1, MANY), n),
        280,
        400,
        exceeds=True,
    ),
    Body("long texts", "jobs/", lambda n: jobs("texts", {"text": "a, b" * 2000}, n), 1000, 201),
    *(
        Body(f"{word} rows, {name}", "jobs/", make, largest, status)
        for word, item, status, names in (
            ("right", "a", 201, ("free", "texts")),
            ("wrong", 1, 400, ("texts", "either")),
        )
        for name in names
        for make, largest in (
            (lambda n, name=name, item=item: jobs(name, rows(item, FEW), n), BATCH_ITEMS),
            (lambda n, name=name, item=item: jobs(name, rows(item, n), LARGE), MANY),
        )
    ),
    Body("wrong alternatives", "jobs/", lambda n: jobs("either", rows(1, n), 60), 2900, 400),
    Body("wrong objects", "jobs/", lambda n: jobs("names", rows({}, 90), n), 999, 400),
    Body("unknown fields", "jobs/", lambda n: jobs("free", {}, n, **UNKNOWN), 1000, 400),
    Body(
        "bad fields",
        "jobs/",
        lambda n: jobs("free", {}, n, key="a b", user_id="c d", stage=1),
        1000,
        400,
    ),
    Body("unknown type", "jobs/", lambda n: jobs("nothing", {}, n), 1000, 400),
    Body(
        "results",
        "jobs/settle/",
        lambda n: reports("outcomes", n, outcome="succeeded", result=rows(1, FEW)),
        1000,
        200,
    ),
    Body(
        "wrong follow-ups",
        "jobs/settle/",
        lambda n: reports(
            "outcomes",
            n,
            outcome="succeeded",
            submit=[{"type": "either", "context": rows(1, FEW)}],
        ),
        1000,
        200,
    ),
    Body(
        "checkpoints",
        "jobs/heartbeat/",
        lambda n: reports("leases", n, checkpoint=rows(1, FEW)),
        1000,
        200,
    ),
    Body("a pool", "pools/points/rebuild/", lambda n: pool(rows(1, FEW), n), 1000, 200),
    Body("a wrong pool", "pools/places/rebuild/", lambda n: pool(rows(1, 2900), n), 60, 400),
    Body(
        "bad names",
        "executors/gid_sales/members/",
        lambda n: json.dumps({"add": ["a b"] * n}).encode(),
        1000,
        400,
    ),
    Body("params", "once-tasks/", task, MANY, 400),
    Body("a schema", "templates/", template, 9000, 201),
]


# --- Schemas and their values -------------------------------------------------------------------
class Check(NamedTuple):
    """A value of the property `rows` that does not fit the schema."""

    name: str
    schema: dict[str, Any]
    value: Any


def of_rows(rows: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"rows": rows}}


NAMES = [f"name{n}" for n in range(300)]
# Each took between two seconds and a minute, or gigabytes, of another library, or of this one when
# it is asked for all errors.
CHECKS = [
    Check("every item", ROWS, [1] * 9999),
    Check("every name of every item", of_rows({"items": {"required": NAMES}}), [{}] * 9999),
    Check("every alternative", {"type": "object", "anyOf": [ROWS] * 10}, [1] * 9999),
    Check("alternatives of items", of_rows({"items": {"oneOf": [False] * 300}}), [1] * 9999),
    Check("unique", of_rows({"uniqueItems": True}), [*range(4000), *map(str, range(5000)), "1"]),
    Check("unique lists", of_rows({"uniqueItems": True}), [*([n] for n in range(4990)), [1]]),
    Check("enum", of_rows({"items": {"enum": NAMES}}), ["other"] * 9999),
    Check(
        "enum of objects", of_rows({"items": {"enum": [{"a": n} for n in NAMES]}}), [{"a": 1}] * 999
    ),
    Check("unevaluated", of_rows({"prefixItems": [True], "unevaluatedItems": False}), [1] * 9999),
    Check("pattern", of_rows({"items": {"pattern": "(x+x+)+y"}}), ["x" * 200_000]),
    Check("repetitions", of_rows({"items": {"pattern": r"(a{1,30}){1,30}b"}}), ["a" * 250_000]),
]
# With a word of the message that refuses it, if so.
_LARGE = r"\p{L}{1,64}"
MADE: list[tuple[str, dict[str, Any], str | None]] = [
    ("patterns", {"allOf": [{"pattern": f"{_LARGE}{n}"} for n in range(300)]}, "together"),
    ("patterns that fit", {"allOf": [{"pattern": f"{_LARGE}{n}"} for n in range(8)]}, None),
    ("small patterns", {"allOf": [{"pattern": f"a{{1,900}}{n}"} for n in range(300)]}, None),
    ("members", {"enum": [*range(9000)], "items": {"$ref": "#"}}, None),
    ("parts", {"prefixItems": [{}] * 4000, "items": {"$ref": "#"}}, None),
    ("alternatives", {"anyOf": [{"minimum": "1"}] * 900}, "2020-12"),
]
_PIECES = ("a", "0", ".", ":", "%", "(", "{", "/~0", "a.", "1:", "P1Y", "-", "é", "[", "@")
FORMAT_CHECKS = [
    Check(
        f"formats of {piece * 3}…",
        of_rows({"properties": {name: {"format": name} for name in FORMATS}}),
        dict.fromkeys(FORMATS, piece * (40_000 // len(piece)) + "!"),
    )
    for piece in _PIECES
]
