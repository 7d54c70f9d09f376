"""/once-tasks/ and /once-tasks/{id}/: what operators plan. S0.3, S0.7, S0.9, S0.32."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import OnceTask
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = pytest.mark.django_db

TASKS = "/api/v1/once-tasks/"
PULL = "/api/v1/dispatch/"
MINIMUM = {"title": "Check the shelf", "executor": "uid_alice"}
# The least that PUT takes.
LEAST = {**MINIMUM, "status": "active"}
DEFAULTS = {
    "template": None,
    "template_version": None,
    "params": {},
    "start_at": "2026-03-02T09:00:00Z",
    "end_at": None,
    "mode": "single",
    "dispatch_times": 1,
    "priority": 0,
    "lease_seconds": 3600,
    "on_failure": "finish",
    "on_expiry": "give_back",
    "max_rounds": 3,
    "status": "active",
    "state": "open",
    "available_until": "2026-03-09T09:00:00Z",
    "handed": 0,
    "remaining": 1,
    "version": 1,
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:00:00Z",
}
WHOLE = {
    "title": "Łódź: photo check ☃",
    "executor": "gid_sales",
    "template": "photo-check",
    "params": {"shop": "Łódź 1", "photos": 3},
    "start_at": "2026-03-02T18:30:00+08:00",
    "end_at": "2026-03-09T00:00:00.250000Z",
    "mode": "multi",
    "dispatch_times": 6,
    "priority": -100,
    "lease_seconds": 2_592_000,
    "on_failure": "retry_same",
    "on_expiry": "keep",
    "max_rounds": 5,
    "status": "paused",
}


def planned(api: ContractClient, **changes: Any) -> dict[str, Any]:
    answer = api.post(TASKS, {**MINIMUM, **changes})
    assert answer.status_code == 201, answer.content
    return answer.json()


def at(task: dict[str, Any]) -> str:
    return f"{TASKS}{task['id']}/"


@pytest.fixture
def people(api: ContractClient) -> None:
    """alice and bob in the group sales, and a template."""
    factories.group(members=["uid_alice", "uid_bob"])
    factories.template("photo-check")


@pytest.mark.usefixtures("people")
class TestCreate:
    def test_defaults_are_those_of_the_contract(self, api: ContractClient) -> None:
        """S0.3, S0.7, S0.9: a title and an executor are enough."""
        answer = api.post(TASKS, MINIMUM)

        assert answer.status_code == 201
        body = answer.json()
        assert body == {
            **MINIMUM,
            **DEFAULTS,
            "id": OnceTask.objects.get().pk,
            "part_of": None,
        }
        assert type(body["id"]) is int
        assert api.get(at(body)).json() == body

    def test_every_field_is_taken_and_returned(self, api: ContractClient) -> None:
        """S0.2, S0.3, S0.7: instants are in UTC, the template with its version."""
        body = api.post(TASKS, WHOLE).json()

        assert {name: body[name] for name in WHOLE} == {**WHOLE, "start_at": "2026-03-02T10:30:00Z"}
        assert (body["template_version"], body["handed"], body["remaining"]) == (1, 0, 6)

    def test_values_at_the_limits_are_taken(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        """S0.9: ranges are inclusive; null in mode multi means every member once."""
        for changes, remaining in (
            ({"mode": "multi", "dispatch_times": None}, 1),
            ({"mode": "multi", "dispatch_times": 2_147_483_647}, 2_147_483_647),
            ({"mode": "blocking", "dispatch_times": 2}, 2),
            ({"priority": 100, "lease_seconds": 1, "max_rounds": 1}, 1),
            ({"end_at": "9998-12-31T23:59:59.999999Z", "start_at": "1970-01-01T00:00:00Z"}, 1),
            ({"params": {"deep": {"a": [{"b": [[[[[[[[[[1]]]]]]]]]]}]}}}, 1),
        ):
            with subtests.test(changes=changes):
                body = planned(api, **changes)

                assert {name: body[name] for name in changes} == changes
                assert body["remaining"] == remaining

    def test_what_makes_no_sense_is_refused_field_by_field(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        """S0.2, S0.7: every wrong field is named, nothing is planned."""
        before = checksum()
        for changes, fields in (
            ({"dispatch_times": 2}, ["dispatch_times"]),
            ({"dispatch_times": None}, ["dispatch_times"]),
            ({"mode": "blocking", "dispatch_times": None}, ["dispatch_times"]),
            ({"end_at": "2026-03-02T09:00:00Z"}, ["end_at"]),
            ({"end_at": "9999-12-31T23:59:59Z"}, ["end_at"]),
            ({"start_at": "2026-03-03T00:00:00Z", "end_at": "2026-03-02T23:00:00Z"}, ["end_at"]),
            ({"executor": "uid_nobody"}, ["executor"]),
            ({"executor": "alice"}, ["executor"]),
            ({"template": "nothing"}, ["template"]),
            ({"template": "photo-check"}, ["params.shop"]),
            (
                {"template": "photo-check", "params": {"shop": 1, "photos": "x"}},
                ["params.photos", "params.shop"],
            ),
            ({"template": "photo-check", "params": {"shop": "1", "extra": 1}}, ["params"]),
            ({"status": "deleted"}, ["status"]),
            ({"priority": 101, "lease_seconds": 0}, ["priority", "lease_seconds"]),
        ):
            with subtests.test(changes=changes):
                answer = api.post(TASKS, {**MINIMUM, **changes})

                assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
                assert mistakes(answer) == fields
                assert checksum() == before

    def test_what_the_server_sets_cannot_be_sent(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        """S0.7: no mass assignment."""
        for field in (
            "id",
            "handed",
            "remaining",
            "template_version",
            "created_at",
            "created_by",
            "source",
        ):
            with subtests.test(field=field):
                answer = api.post(TASKS, {**MINIMUM, field: 1})

                assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")


@pytest.mark.usefixtures("people")
class TestStock:
    def test_handed_and_remaining_count_what_is_out(self, api: ContractClient) -> None:
        """S0.9, S0.12, I1: out, given back, used up."""
        task = planned(api, executor="gid_sales", mode="multi", dispatch_times=2)
        numbers = [
            api.post(PULL, {"uid": uid}).json()["number"] for uid in ("uid_alice", "uid_bob")
        ]

        both = api.get(at(task)).json()
        api.post("/api/v1/dispatch/release/", {"uid": "uid_bob", "number": numbers[1]})
        one = api.get(at(task)).json()

        assert (both["handed"], both["remaining"]) == (2, 0)
        assert (one["handed"], one["remaining"]) == (1, 1)

    def test_fewer_times_than_handed_means_exhausted(self, api: ContractClient) -> None:
        """S0.9: remaining never goes below 0, and nobody gets another one."""
        task = planned(api, executor="gid_sales", mode="multi", dispatch_times=3)
        for uid in ("uid_alice", "uid_bob"):
            api.post(PULL, {"uid": uid})

        body = api.patch(at(task), {"dispatch_times": 1}).json()

        assert (body["handed"], body["remaining"]) == (2, 0)


@pytest.mark.usefixtures("people")
class TestEdit:
    def test_patch_changes_what_it_names(self, api: ContractClient, frozen_clock: Any) -> None:
        """S0.32, I57: one field, the rest as it was; the version and the time of the edit move."""
        task = planned(api, params={"a": 1}, priority=5)
        frozen_clock.advance(minutes=1)

        body = api.patch(at(task), {"priority": 7}).json()

        assert body.pop("undo")
        assert body == {**task, "priority": 7, "version": 2, "updated_at": "2026-03-02T09:01:00Z"}

    @pytest.mark.both
    def test_edit_that_changes_nothing_is_none(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        """I55, I57: no version, no entry."""
        task = planned(api)
        before = checksum()
        for body in ({}, {"priority": 0}, {"title": "Check the shelf"}):
            with subtests.test(body=body):
                assert api.patch(at(task), body).json() == {**task, "undo": None}
                assert checksum() == before

    @pytest.mark.both
    def test_put_sets_what_it_leaves_out_to_the_defaults(self, api: ContractClient) -> None:
        """S0.32: the whole plan anew; only the start is kept, for now has passed."""
        task = planned(api, **WHOLE)

        body = api.put(at(task), LEAST).json()

        assert body.pop("undo")
        assert body == {
            **task,
            **MINIMUM,
            **DEFAULTS,
            "start_at": task["start_at"],
            "state": "waiting",
            "available_until": "2026-03-09T10:30:00Z",
            "version": 2,
        }

    def test_moved_task_is_pulled_by_its_new_executor(self, api: ContractClient) -> None:
        """S0.32, I7: by the next pull of each."""
        task = planned(api)
        api.patch(at(task), {"executor": "uid_bob"})

        assert api.post(PULL, {"uid": "uid_alice"}).status_code == 204
        assert api.post(PULL, {"uid": "uid_bob"}).json()["task"] == task["id"]

    def test_edit_is_checked_with_what_it_leaves_as_it_is(self, api: ContractClient) -> None:
        """S0.7: the plan as a whole must make sense."""
        task = planned(api, **WHOLE)
        before = checksum()

        for body, field in (
            ({"mode": "single"}, "dispatch_times"),
            ({"end_at": "2026-03-02T10:30:00Z"}, "end_at"),
            ({"params": {}}, "params.shop"),
            ({"dispatch_times": None, "mode": "blocking"}, "dispatch_times"),
        ):
            answer = api.patch(at(task), body)
            assert mistakes(answer) == [field]
        assert checksum() == before


@pytest.mark.usefixtures("people")
class TestDelete:
    def test_deleted_task_is_gone_and_its_open_dispatch_goes_on(self, api: ContractClient) -> None:
        """S0.3, I7: 204 without a body; what is in flight may still be called back."""
        task = planned(api)
        number = api.post(PULL, {"uid": "uid_alice"}).json()["number"]

        answer = api.delete(at(task))

        assert (answer.status_code, answer.content) == (204, b"")
        for gone in (api.get(at(task)), api.patch(at(task), {}), api.put(at(task), LEAST)):
            assert gone.status_code == 404
        assert api.get(TASKS).json()["results"] == []
        body = {"uid": "uid_alice", "number": number, "outcome": "succeeded"}
        assert api.post("/api/v1/callback/", body).status_code == 200

    def test_second_delete_is_not_found(self, api: ContractClient) -> None:
        """S0.3: and changes nothing."""
        task = planned(api)
        api.delete(at(task))
        before = checksum()

        assert api.delete(at(task)).status_code == 404
        assert checksum() == before


@pytest.mark.usefixtures("people")
class TestRead:
    def test_list_filters_by_executor_and_status(self, api: ContractClient) -> None:
        """S0.31."""
        alices = planned(api)
        group = planned(api, executor="gid_sales", status="paused")

        def listed(**query: str) -> list[int]:
            return [row["id"] for row in api.get(TASKS, **query).json()["results"]]

        assert listed() == [group["id"], alices["id"]]
        assert listed(executor="uid_alice") == [alices["id"]]
        assert listed(executor="gid_sales", status="paused") == [group["id"]]
        assert listed(executor="gid_sales", status="active") == []
        assert listed(executor="uid_alice ") == listed(executor="uid_nobody") == []

    def test_wrong_filter_is_refused(self, api: ContractClient, subtests: pytest.Subtests) -> None:
        for query in ({"status": "deleted"}, {"status": ""}, {"executor": ""}):
            with subtests.test(query=query):
                answer = api.get(TASKS, **query)

                assert mistakes(answer) == list(query)
