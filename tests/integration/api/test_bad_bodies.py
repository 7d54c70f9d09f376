"""No body that is wrong in any way changes a row or brings an answer of another form. S0.29."""

from __future__ import annotations

import json

import pytest

from apps.common.api.serializer_fields import MISSING, SAY_WHY
from tests.emptying import undone
from tests.environment import Deal
from tests.integration.api import corpus
from tests.integration.api.contract import ContractClient, contract, mistakes
from tests.integration.api.corpus import BODIES, OWN_BODIES
from tests.integration.api.endpoints import WRITES, Endpoint
from tests.integration.api.world import Untouched, World

pytestmark = pytest.mark.django_db


def test_good_body_succeeds(world: World, api: ContractClient, subtests: pytest.Subtests) -> None:
    """What the bad bodies below are made from is good, and so is another way to write it."""
    for endpoint in WRITES:
        with subtests.test(str(endpoint)), undone():
            body = endpoint.body(world) if endpoint.body else {}
            raw = json.dumps(body, indent=4, ensure_ascii=False).encode()
            endpoint.before(api, world)

            answer = endpoint.request(
                api, world, raw=raw, content_type='application/json;charset="UTF-8"'
            )

            assert answer.status_code == endpoint.good, answer.content


@pytest.mark.parametrize("endpoint", WRITES, ids=str)
def test_bytes_that_are_no_good_object_are_refused(
    endpoint: Endpoint, world: World, api: ContractClient
) -> None:
    """S0.29: the status and code of the catalogue, and zero rows changed. In the short run an
    address has a third of the bodies that are wrong for all of them alike."""
    assert endpoint.body
    good = endpoint.body(world)
    limit = corpus.BATCH_BYTES if endpoint.is_batch else corpus.SINGLE_BYTES
    otherwise = []

    with Untouched() as rows:
        for bad in (*OWN_BODIES, *Deal(3)(BODIES)):
            answer = endpoint.request(
                api,
                world,
                raw=bad.make(good, limit),
                content_type=bad.content_type,
                headers=bad.headers,
            )
            found = (answer.status_code, answer.json().get("code"))
            if found != (bad.status, bad.code) or not rows:
                otherwise.append((bad.name, found, answer.content[:200]))

    assert not otherwise


def test_value_that_its_field_does_not_take_is_refused(
    world: World, api: ContractClient, subtests: pytest.Subtests
) -> None:
    """S0.7, S0.29: every field with every wrong value, named in the answer; zero rows changed. In
    the short run each field has a third of the values that no field of its kind takes."""
    dealt = corpus.Dealt()
    for endpoint in WRITES:
        with subtests.test(str(endpoint)):
            _refuses_all(endpoint, dealt, world, api)


def _refuses_all(
    endpoint: Endpoint, dealt: corpus.Dealt, world: World, api: ContractClient
) -> None:
    assert endpoint.body
    good = endpoint.body(world)
    fields, _ = corpus.fields_of(endpoint)
    assert set(fields) >= set(good)

    def send(wrong: corpus.Body) -> set[str]:
        answer = endpoint.request(api, world, body={**good, **wrong})
        named = {field.partition("[")[0] for field in mistakes(answer)}
        assert named <= {*wrong, ""} and rows, (wrong, answer.content[:200])
        return named

    with Untouched() as rows:
        corpus.refuse_all({name: dealt(schema) for name, schema in fields.items()}, send)


def test_missing_field_is_named(
    world: World, api: ContractClient, subtests: pytest.Subtests
) -> None:
    """S0.29: what OpenAPI calls required; and nothing at all names all of them."""
    for endpoint in WRITES:
        with subtests.test(str(endpoint)), Untouched() as rows:
            assert endpoint.body
            good = endpoint.body(world)
            _, required = corpus.fields_of(endpoint)
            for name in required:
                body = {key: value for key, value in good.items() if key != name}
                assert mistakes(endpoint.request(api, world, body=body)) == [name]
            if required:
                answer = endpoint.request(api, world, body={})
                assert sorted(mistakes(answer)) == sorted(required)
            assert rows
        with undone():
            answer = endpoint.request(api, world, body={})
            errors = answer.json()["errors"] if answer.status_code == 400 else []
            if {MISSING, SAY_WHY} & {error["message"] for error in errors}:
                assert not contract().takes(endpoint.method, endpoint.address(world), {})


def test_query_parameter_is_refused(
    world: World, api: ContractClient, subtests: pytest.Subtests
) -> None:
    """S0.29: a body's field in the address is none."""
    for endpoint in WRITES:
        with subtests.test(str(endpoint)), Untouched() as rows:
            answer = endpoint.request(api, world, query={"uid": "uid_alice"})

            assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
            assert rows
