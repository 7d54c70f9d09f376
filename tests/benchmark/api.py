"""The figures of what a request may cost: bodies and schemas that are made to cost most."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from django.core.management.base import CommandError
from django.test import override_settings

from apps.access import services
from apps.access.rules.clients import Scope
from apps.common.errors import Invalid
from apps.common.json.schema import Checker, check_schema
from tests.benchmark import costly
from tests.benchmark.costly import BODIES, CHECKS, FORMAT_CHECKS, MADE, Body, Check
from tests.benchmark.figures import Figure, Part, RunOptions, figure
from tests.clients import JsonClient

MAX_SECONDS = 1.0
MAX_RATIO = 4.0
ROUNDS, FEW_ROUNDS = 5, 2


class Cost(NamedTuple):
    """Seconds of a core, the least of several rounds."""

    seconds: float
    name: str


def _cost(name: str, prepare: Callable[[], Callable[[], object]], run: RunOptions) -> Cost:
    """What the work costs that is prepared anew for each round."""
    took = []
    for _ in range(FEW_ROUNDS if run.quick else ROUNDS):
        work = prepare()
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return Cost(min(took), name)


def _bare(run: RunOptions) -> Cost:
    """The baseline of all: a view that does nothing but read the largest body."""
    numbers = BODIES[0]
    return _cost("json.loads", lambda: partial(json.loads, numbers.make(numbers.largest)), run)


def _bodies(run: RunOptions) -> Iterator[Figure]:
    """For each address its costliest body, and the costliest of all."""
    costly.make_rows()
    _, key = services.create_client(name="benchmark", scopes=[*Scope], actor="benchmark")
    client = JsonClient(key)
    bare = _bare(run)
    costliest: dict[str, Cost] = {}
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        for body in BODIES:
            cost = _cost(body.name, partial(_request, client, body), run)
            costliest[body.address] = max(cost, costliest.get(body.address, cost))
    for address, cost in costliest.items():
        yield _beside(f"{address}: {cost.name}", cost, bare)
    yield _whole(f"the costliest of {len(BODIES)} bodies", costliest.values())


def _request(client: JsonClient, body: Body) -> Callable[[], None]:
    raw = body.make(body.largest)

    def send() -> None:
        status = client.post(f"/api/v1/{body.address}", raw=raw).status_code
        if status != body.status:
            raise CommandError(f"{body.name} for {body.address} answered {status}.")

    return send


def _schemas(run: RunOptions) -> Iterator[Figure]:
    """The costliest value to check, and the costliest schema to save and to make ready."""
    bare = _bare(run)
    checks = (*CHECKS, *FORMAT_CHECKS)
    values = [_cost(each.name, partial(partial, _check, each), run) for each in checks]
    schemas = [_cost(name, partial(partial, _save, schema), run) for name, schema, _ in MADE]
    for what, costs in (("value", values), ("schema", schemas)):
        cost = max(costs)
        yield _beside(f"{what} of {len(costs)}: {cost.name}", cost, bare)
    yield _whole("the costliest of both", [*values, *schemas])


def _check(check: Check) -> None:
    if not Checker(check.schema).faults({"rows": check.value}):
        raise CommandError(f"{check.name} fits its schema.")


def _save(schema: dict[str, object]) -> None:
    schema = {"type": "object", **schema}
    with suppress(Invalid):
        check_schema(schema)
        Checker(schema).faults({"a": 1})


def _beside(name: str, cost: Cost, bare: Cost) -> Figure:
    unit = "ms of a core"
    return figure(name, cost.seconds * 1000, unit, baseline=bare.seconds * 1000, at_most=MAX_RATIO)


def _whole(name: str, costs: Iterable[Cost]) -> Figure:
    return figure(name, max(costs).seconds, "s of a core", at_most=MAX_SECONDS)


PARTS = [Part("bodies", _bodies, on="both"), Part("schemas", _schemas, on="both")]
