"""Bad items: whatever is wrong inside a list of reports, leases or jobs is named by its place, and
nothing is done for any of them. S0.29, S2.16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.api import corpus
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.endpoints import WRITES, Endpoint
from tests.integration.api.world import Untouched, World

pytestmark = pytest.mark.django_db

Body = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where an item stands in the body of an address; `good` is one that is taken there."""

    route: str
    field: str
    good: Callable[[World], Body]
    is_list: bool = True

    def __str__(self) -> str:
        return f"{self.route}{self.field}"

    @property
    def prefix(self) -> str:
        return f"{self.field}[1]" if self.is_list else self.field

    @property
    def endpoint(self) -> Endpoint:
        [found] = [each for each in WRITES if (each.method, each.route) == ("POST", self.route)]
        return found

    def schema(self) -> Body:
        fields, _ = corpus.fields_of(self.endpoint)
        return corpus.resolved(fields[self.field]["items"] if self.is_list else fields[self.field])

    def body(self, world: World, item: Any) -> Body:
        """The item behind one that is good."""
        named = {} if self.route == "jobs/" else {"worker": "pi-1"}
        return {**named, self.field: [self.good(world), item] if self.is_list else item}


def _outcome(world: World) -> Body:
    return {"id": str(world.running_job), "lease_token": "a-token", "outcome": "released"}


PLACES = [
    Place("jobs/settle/", "outcomes", _outcome),
    Place("jobs/settle/", "hold", lambda world: {"types": ["mail"]}, is_list=False),
    Place(
        "jobs/heartbeat/",
        "leases",
        lambda world: {"id": str(world.running_job), "lease_token": "a-token"},
    ),
    Place("jobs/", "jobs", lambda world: {"type": "mail"}),
]
EVERY_PLACE = pytest.mark.parametrize("place", PLACES, ids=str)


@EVERY_PLACE
def test_good_item_is_taken(place: Place, world: World, api: ContractClient) -> None:
    """What the bad ones below are made from."""
    body = place.body(world, place.good(world))
    if place.field == "leases":
        body["leases"] = body["leases"][:1]

    answer = place.endpoint.request(api, world, body=body)

    assert answer.status_code == place.endpoint.good, answer.content


@EVERY_PLACE
def test_value_that_its_field_does_not_take_is_refused(
    place: Place, world: World, api: ContractClient
) -> None:
    good = place.good(world)

    with Untouched() as rows:

        def send(wrong: Body) -> set[str]:
            answer = place.endpoint.request(api, world, body=place.body(world, {**good, **wrong}))
            inside = [field.removeprefix(place.prefix).lstrip(".") for field in mistakes(answer)]
            named = {field.partition("[")[0] for field in inside}
            assert named <= {*wrong, ""} and rows, (wrong, inside)
            return named

        fields = place.schema()["properties"].items()
        corpus.refuse_all({name: corpus.wrong_values(each) for name, each in fields}, send)


@EVERY_PLACE
def test_item_that_is_no_object_is_refused(place: Place, world: World, api: ContractClient) -> None:
    with Untouched() as rows:
        for item in (None, 5, 0.5, "", "{}", True, [], [{}]):
            answer = place.endpoint.request(api, world, body=place.body(world, item))
            assert mistakes(answer) == [place.prefix], item

    assert rows


@EVERY_PLACE
def test_fields_of_an_item_are_those_that_it_has(
    place: Place, world: World, api: ContractClient
) -> None:
    good = place.good(world)
    wrong = [("x", {**good, "x": 1})]
    wrong += [
        (name, {key: value for key, value in good.items() if key != name})
        for name in place.schema()["required"]
    ]

    with Untouched() as rows:
        for name, item in wrong:
            answer = place.endpoint.request(api, world, body=place.body(world, item))
            assert mistakes(answer) == [f"{place.prefix}.{name}"]

    assert rows


@pytest.mark.parametrize("place", [each for each in PLACES if each.is_list], ids=str)
def test_list_has_one_to_a_thousand_items(place: Place, world: World, api: ContractClient) -> None:
    good = place.good(world)

    with Untouched() as rows:
        for items in ([], [good] * 1_001, {"0": good}, None, "[]"):
            body = {**place.body(world, good), place.field: items}
            answer = place.endpoint.request(api, world, body=body)
            assert mistakes(answer) == [place.field]

    assert rows


def test_lease_is_renewed_once_in_a_request(world: World, api: ContractClient) -> None:
    """Or a checkpoint in the second would be lost, and its worker told that it is kept."""
    good = {"id": str(world.running_job), "lease_token": "a-token"}

    with Untouched() as rows:
        answer = api.post(
            "/api/v1/jobs/heartbeat/",
            {"worker": "pi-1", "leases": [good, {**good, "checkpoint": {"page": 2}}]},
        )

    assert mistakes(answer) == ["leases[1].id"]
    assert rows
