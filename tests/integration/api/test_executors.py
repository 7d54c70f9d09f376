"""/executors/ and /executors/{name}/: users and groups, planned over REST. S0.5."""

from __future__ import annotations

import pytest

from apps.dispatch.models import Executor
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes

pytestmark = pytest.mark.django_db

EXECUTORS = "/api/v1/executors/"
ALICE = f"{EXECUTORS}uid_alice/"


@pytest.mark.parametrize(("name", "kind"), [("uid_alice", "user"), ("gid_sales", "group")])
def test_new_executor_has_the_defaults(api: ContractClient, name: str, kind: str) -> None:
    """S0.5, S0.7: the prefix decides the kind; the answer is the executor."""
    answer = api.post(EXECUTORS, {"name": name})

    assert answer.status_code == 201
    assert answer.json() == {
        "name": name,
        "kind": kind,
        "title": "",
        "enabled": True,
        "last_seen_at": None,
        "version": 1,
    }
    assert api.get(f"{EXECUTORS}{name}/").json() == answer.json()


def test_name_that_is_none_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.5: a prefix, letters, digits and _ . @ -; the longest has 128 characters."""
    for name in (
        *("alice", "UID_alice", "uid_alice ", "uid_álice", "uid_a/b", "uid_a;DROP TABLE"),
        "uid_" + "a" * 125,
    ):
        with subtests.test(name=name):
            answer = api.post(EXECUTORS, {"name": name})

            assert mistakes(answer) == ["name"]
    assert not Executor.objects.exists()
    longest = "uid_" + "a" * 124
    assert api.post(EXECUTORS, {"name": longest}).status_code == 201
    assert api.get(f"{EXECUTORS}{longest}/").json()["name"] == longest


def test_kind_against_the_prefix_is_refused(api: ContractClient) -> None:
    """S0.5: kind may be said, not chosen."""
    answer = api.post(EXECUTORS, {"name": "uid_alice", "kind": "group"})

    assert mistakes(answer) == ["kind"]


def test_patch_changes_what_it_names_and_put_the_whole(api: ContractClient) -> None:
    """S0.32, I57: the version counts edits, and an empty edit is none."""
    api.post(EXECUTORS, {"name": "uid_alice", "title": "Alice"})

    changed = api.patch(ALICE, {"enabled": False}).json()
    assert (changed["title"], changed["enabled"], changed["version"]) == ("Alice", False, 2)
    assert api.patch(ALICE, {}).json() == changed
    assert api.patch(ALICE, {"enabled": False}).json() == changed
    whole = api.put(ALICE, {"enabled": True}).json()
    assert (whole["title"], whole["enabled"], whole["version"]) == ("", True, 3)


def test_list_filters_by_kind(api: ContractClient) -> None:
    """S0.31."""
    factories.group(members=["uid_alice"])

    assert [row["name"] for row in api.get(EXECUTORS, kind="user").json()["results"]] == [
        "uid_alice"
    ]
    assert [row["name"] for row in api.get(EXECUTORS, kind="group").json()["results"]] == [
        "gid_sales"
    ]
    assert api.get(EXECUTORS, kind="robot").status_code == 400
