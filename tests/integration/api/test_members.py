"""/executors/{gid}/members/: who belongs to a group. S0.5, S0.17."""

from __future__ import annotations

import pytest

from apps.dispatch.models import Executor
from tests import factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = pytest.mark.django_db

MEMBERS = "/api/v1/executors/gid_sales/members/"


@pytest.fixture(autouse=True)
def sales(api: ContractClient) -> Executor:
    """A group of alice and bob, carol beside it."""
    factories.user("uid_carol")
    return factories.group(members=["uid_bob", "uid_alice"])


def test_all_members_are_listed_sorted(api: ContractClient) -> None:
    """S0.5."""
    answer = api.get(MEMBERS)

    assert (answer.status_code, answer.json()) == (200, {"members": ["uid_alice", "uid_bob"]})


def test_post_adds_and_removes_and_returns_all(api: ContractClient) -> None:
    """S0.5: an unknown user becomes an executor, a known one a member."""
    answer = api.post(MEMBERS, {"add": ["uid_new", "uid_carol"], "remove": ["uid_bob"]})

    assert answer.status_code == 200
    assert answer.json() == {"members": ["uid_alice", "uid_carol", "uid_new"]}
    assert api.get("/api/v1/executors/uid_new/").json()["enabled"] is True
    assert api.get("/api/v1/executors/uid_bob/").status_code == 200


def test_repeat_changes_nothing(api: ContractClient) -> None:
    """S0.5: a lost answer is asked for again."""
    body = {"add": ["uid_new"], "remove": ["uid_bob", "uid_nobody"]}
    first = api.post(MEMBERS, body)
    before = checksum()

    again = api.post(MEMBERS, body)

    assert again.content == first.content
    assert checksum() == before


def test_bad_members_are_refused_as_a_whole(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.5: all or nothing, the field and its position named."""
    before = checksum()
    for body, field in (
        ({"add": ["gid_other"]}, "add[0]"),
        ({"add": ["uid_x", "alice"]}, "add[1]"),
        ({"add": ["uid_x", "uid_x"]}, "add"),
        ({"remove": ["gid_sales"]}, "remove[0]"),
        ({"remove": ["uid_a/b"]}, "remove[0]"),
        ({"add": ["uid_x"], "remove": ["uid_x"]}, "remove"),
        ({"add": ["uid_x", "uid_ y"]}, "add[1]"),
        ({"add": ["uid_" + "y" * 125]}, "add[0]"),
        ({"add": [""]}, "add[0]"),
        ({"add": [None]}, "add[0]"),
        ({"add": [7]}, "add[0]"),
        ({"add": "uid_x"}, "add"),
        ({"add": {"uid_x": 1}}, "add"),
        ({"add": None}, "add"),
        ({"add": [["uid_x"]]}, "add[0]"),
        ({"add": [f"uid_{n}" for n in range(1001)]}, "add"),
        ({"add": [f"uid_{n}" for n in range(1000)], "remove": ["uid_bob"]}, "add"),
    ):
        with subtests.test(field, body=body):
            answer = api.post(MEMBERS, body)

            assert mistakes(answer) == [field]
            assert checksum() == before


def test_thousand_members_at_once(api: ContractClient) -> None:
    """S0.5: the most that one request changes, new executors all of them."""
    added = [f"uid_{n:04}" for n in range(1000)]

    members = api.post(MEMBERS, {"add": added}).json()["members"]

    assert members == [*added, "uid_alice", "uid_bob"]
    assert api.get(MEMBERS).json()["members"] == members


def test_users_have_no_members(api: ContractClient) -> None:
    """S0.5: only a group does."""
    path = "/api/v1/executors/uid_alice/members/"

    for answer in (api.get(path), api.post(path, {"add": ["uid_bob"]})):
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


class TestBoundKey:
    """A key bound to a group manages it without reaching other executors."""

    @pytest.fixture
    def bound(self, sales: Executor, api_for: ApiFor) -> ContractClient:
        return api_for(executors=["gid_sales"])

    @pytest.mark.both
    def test_stranger_cannot_be_drawn_into_the_binding(
        self, bound: ContractClient, api: ContractClient
    ) -> None:
        """S0.5: a known stranger and an unknown name are refused alike, nobody is added."""
        before = checksum()
        known = bound.post(MEMBERS, {"add": ["uid_carol"]})
        after_known = checksum()
        Executor.objects.filter(name="uid_carol").delete()

        unknown = bound.post(MEMBERS, {"add": ["uid_carol"]})

        assert known.status_code == 404
        assert {**known.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}
        assert after_known == before
        assert api.get(MEMBERS).json() == {"members": ["uid_alice", "uid_bob"]}

    def test_own_members_can_be_removed(self, bound: ContractClient) -> None:
        """S0.5, I60: what leaves the group leaves the binding."""
        answer = bound.post(MEMBERS, {"remove": ["uid_bob"]})

        assert answer.json() == {"members": ["uid_alice"]}
        assert bound.get("/api/v1/executors/uid_bob/").status_code == 404

    @pytest.mark.both
    def test_user_of_the_binding_can_be_added(self, api_for: ApiFor) -> None:
        """S0.5: bound to both, the key may join them."""
        both = api_for(executors=["gid_sales", "uid_carol"])

        answer = both.post(MEMBERS, {"add": ["uid_carol"]})

        assert answer.json() == {"members": ["uid_alice", "uid_bob", "uid_carol"]}
