"""Bodies that nobody thought of: no failure of the server, and only documented answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.environment import examples
from tests.integration.api import corpus
from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoints import WRITES, Endpoint
from tests.integration.api.world import World

pytestmark = pytest.mark.django_db

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    TEXT,
    st.sampled_from(["uid_alice", "gid_sales", "uid_new", "photo-check", "2026-03-02T09:00:00Z"]),
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def bodies(endpoint: Endpoint, good: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Any JSON; or the fields of the endpoint, each good, wrong, odd or absent."""
    fields, _ = corpus.fields_of(endpoint)
    values = {
        name: st.one_of(
            st.just(good.get(name)), st.sampled_from(corpus.wrong_values(schema)), ANY_JSON
        )
        for name, schema in fields.items()
    }
    return st.one_of(ANY_JSON, st.fixed_dictionaries({}, optional=values))


@pytest.mark.parametrize("endpoint", WRITES, ids=str)
@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_body_makes_the_server_fail(
    endpoint: Endpoint, data: st.DataObject, world: World, api: ContractClient
) -> None:
    """S0.29: whatever came before, and the client holds each answer against OpenAPI."""
    assert endpoint.body
    body = data.draw(bodies(endpoint, endpoint.body(world)))

    answer = endpoint.request(api, world, body=body)

    assert answer.status_code < 500
