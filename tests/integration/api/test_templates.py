"""/templates/ and /templates/{name}/: versions of what a task must carry. S0.2."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import Template
from apps.journal.services.versions import set_status
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = pytest.mark.django_db

TEMPLATES = "/api/v1/templates/"
TASKS = "/api/v1/once-tasks/"
SHOP = {"type": "object", "properties": {"shop": {"type": "string"}}, "required": ["shop"]}
FLOOR = {"type": "object", "properties": {"floor": {"type": "integer"}}}


def put(api: ContractClient, schema: Any, name: str = "photo") -> Any:
    return api.put(f"{TEMPLATES}{name}/", {"schema": schema})


def test_new_template_is_version_1(api: ContractClient) -> None:
    """S0.2."""
    answer = api.post(TEMPLATES, {"name": "photo", "schema": SHOP})

    assert answer.status_code == 201
    assert answer.json() == {
        "name": "photo",
        "version": 1,
        "schema": SHOP,
        "status": "active",
        "created_at": "2026-03-02T09:00:00Z",
    }
    assert api.get(f"{TEMPLATES}photo/").json() == answer.json()


def test_put_makes_the_next_version_and_used_ones_stay(api: ContractClient) -> None:
    """S0.2, I52: the task keeps version 1 and its params; a new task takes version 2."""
    factories.user()
    put(api, SHOP)
    body = {"title": "A", "executor": "uid_alice", "template": "photo", "params": {"shop": "1"}}
    first = api.post(TASKS, body).json()

    answer = put(api, FLOOR)
    second = api.post(TASKS, {**body, "params": {"floor": 1}}).json()

    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    assert api.get(f"{TASKS}{first['id']}/").json() == first
    assert (first["template_version"], second["template_version"]) == (1, 2)
    assert Template.objects.get(name="photo", version=1).schema == SHOP
    assert api.patch(f"{TASKS}{first['id']}/", {"params": {}}).status_code == 400


def test_put_of_the_same_schema_makes_no_version(api: ContractClient) -> None:
    """S0.2: a lost answer is asked for again, whatever the order of the keys."""
    first = put(api, SHOP)
    before = checksum()

    again = put(api, dict(reversed(SHOP.items())))

    assert again.json() == first.json()
    assert checksum() == before


def test_each_name_has_an_address(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.2: a name is a key of up to 100 characters."""
    for name in ("a", "..a", "A.b:c@d+e-f_g", "x" * 100):
        with subtests.test(name=name):
            api.post(TEMPLATES, {"name": name, "schema": SHOP})

            assert api.get(f"{TEMPLATES}{name}/").json()["name"] == name
            assert put(api, FLOOR, name).json()["version"] == 2


@pytest.mark.both
def test_template_from_before_with_a_slash_gets_further_versions(api: ContractClient) -> None:
    api.post(TEMPLATES, {"name": "photo", "schema": SHOP})
    Template.objects.update(name="photo/check")
    assert api.get(f"{TEMPLATES}photo/check/").json()["name"] == "photo/check"
    assert put(api, FLOOR, "photo/check").json()["version"] == 2


def test_name_that_is_no_key_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.2."""
    for name in (
        *("", " ", "ph oto", "photo ", "x" * 101, "é", "a\n", "a'b"),
        *("photo/check", "../photo", "/photo", "photo/", ".", ".."),
    ):
        with subtests.test(name=name):
            answer = api.post(TEMPLATES, {"name": name, "schema": SHOP})

            assert mistakes(answer) == ["name"]
    assert not Template.objects.exists()


def test_schema_that_is_none_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.2, I52: whatever would fail when params are checked is refused before; the rest is in
    tests/unit/common/test_json_schema.py."""
    factories.user()
    for schema in (
        {},
        {"type": "string"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}},
        {"type": "object", "not": {"$schema": "http://json-schema.org/draft-03/schema#"}},
        {"type": "object", "properties": {"minimum": {}, "a": {"$ref": "#/properties"}}},
    ):
        with subtests.test(schema=schema):
            for answer in (
                put(api, schema),
                api.post(TEMPLATES, {"name": "photo", "schema": schema}),
            ):
                assert answer.status_code == 400, answer.content
                assert answer.json()["errors"][0]["field"].startswith("schema")
    assert not Template.objects.exists()


def test_list_shows_the_newest_version_of_each(api: ContractClient) -> None:
    """S0.2: newest first by the template's first version."""
    put(api, SHOP, "a")
    put(api, SHOP, "b")
    put(api, FLOOR, "a")

    rows = api.get(TEMPLATES).json()["results"]

    assert [(row["name"], row["version"]) for row in rows] == [("b", 1), ("a", 2)]


def test_retired_template_is_read_and_not_used(api: ContractClient) -> None:
    """S0.2: its status is enforced."""

    factories.user()
    put(api, SHOP)
    set_status(Template.objects.get(), "retired", actor="test")

    assert api.get(f"{TEMPLATES}photo/").json()["status"] == "retired"
    answer = api.post(
        TASKS, {"title": "A", "executor": "uid_alice", "template": "photo", "params": {"shop": "1"}}
    )
    assert mistakes(answer) == ["template"]
    assert (put(api, SHOP).json()["version"], put(api, SHOP).json()["status"]) == (2, "active")


def test_bad_name_and_broken_schema_are_reported_at_once(api: ContractClient) -> None:
    answer = api.post(TEMPLATES, {"name": "bad name", "schema": {"type": "objet"}})
    fields = {error["field"].partition(".")[0] for error in answer.json()["errors"]}
    assert (answer.status_code, fields) == (400, {"name", "schema"})
