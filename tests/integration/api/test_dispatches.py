"""/dispatches/, /dispatches/{number}/ and its cancel: the log of hand-outs. S0.26, S0.31."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.api import dispatches as view
from apps.dispatch.models import Stock
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes, pages

pytestmark = pytest.mark.django_db

PULL = "/api/v1/dispatch/"
DISPATCHES = "/api/v1/dispatches/"
ALICE = {"uid": "uid_alice"}


def handed_out(api: ContractClient, uid: str = "uid_alice") -> Any:
    """The DISPATCH of a new task for that user."""
    if api.get(f"/api/v1/executors/{uid}/").status_code == 404:
        factories.user(uid)
    factories.once_task(factories.member(uid))
    return api.post(PULL, {"uid": uid}).json()


def called_back(api: ContractClient, uid: str = "uid_alice", outcome: str = "succeeded") -> str:
    """The number of a dispatch that has ended so."""
    number: str = handed_out(api, uid)["number"]
    api.post("/api/v1/callback/", {"uid": uid, "number": number, "outcome": outcome})
    return number


def listed(api: ContractClient, **query: Any) -> list[str]:
    answer = api.get(DISPATCHES, **query)
    assert answer.status_code == 200, answer.content
    return [row["number"] for row in answer.json()["results"]]


def walked(api: ContractClient, **query: Any) -> list[list[str]]:
    """The numbers on each page of the list."""
    answers = pages(api, DISPATCHES, **query)
    return [[row["number"] for row in answer.json()["results"]] for answer in answers]


def test_detail_is_dispatch_and_what_became_of_it(api: ContractClient, frozen_clock: Any) -> None:
    """S0.26, S0.29: DISPATCH with executor, state, round, result, message, finished_at."""
    opened = handed_out(api)
    path = f"{DISPATCHES}{opened['number']}/"
    while_open = api.get(path).json()
    frozen_clock.advance(seconds=7)
    body = {**ALICE, "number": opened["number"], "outcome": "failed"}
    api.post("/api/v1/callback/", {**body, "result": {"n": 1}, "message": "No key"})

    ended = api.get(path)

    shown = {**opened, "executor": "uid_alice", "round": 0}
    assert while_open == shown | {
        "state": "open",
        "result": None,
        "message": "",
        "finished_at": None,
        "archived_at": None,
        "part_of": None,
    }
    assert ended.json() == shown | {
        "state": "failed",
        "result": {"n": 1},
        "message": "No key",
        "finished_at": "2026-03-02T09:00:07Z",
        "archived_at": None,
        "part_of": None,
    }
    assert api.get(DISPATCHES).json() == {"next": None, "results": [ended.json()]}


class TestFilters:
    """S0.31: operators filter by executor, state, source, task and period."""

    def test_executor_state_and_task(self, api: ContractClient, frozen_clock: Any) -> None:
        done = called_back(api)
        failed = called_back(api, outcome="failed")
        bobs = handed_out(api, "uid_bob")

        assert listed(api) == [bobs["number"], failed, done]
        assert listed(api, executor="uid_alice") == [failed, done]
        assert listed(api, executor="uid_alice", state="failed") == [failed]
        assert listed(api, state="open") == [bobs["number"]]
        assert listed(api, source="once", task=bobs["task"]) == [bobs["number"]]
        assert listed(api, source="rotate") == []

    def test_unknown_executor_lists_nothing(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        handed_out(api)
        for executor in ("uid_nobody", "gid_sales", "UID_alice", "uid_alice ", "' OR 1=1 --"):
            with subtests.test(executor=executor):
                assert listed(api, executor=executor) == []

    @pytest.mark.both
    @pytest.mark.parametrize("query", [{"state": "failed"}, {"source": "once", "state": "failed"}])
    def test_rare_matches_are_found_page_by_page(
        self, api: ContractClient, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
    ) -> None:
        """No request reads more rows than the limit; an empty page may have a next one."""
        monkeypatch.setattr(view, "MAX_EXAMINED", 2)
        oldest = called_back(api, outcome="failed")
        for _ in range(4):
            called_back(api)
        newest = called_back(api, outcome="failed")

        assert walked(api, **query) == [[newest], [], [oldest]]

    def test_page_of_a_bound_key_reads_no_more(
        self, api: ContractClient, api_for: ApiFor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(view, "MAX_EXAMINED", 2)
        alices = api_for(executors=["uid_alice"])
        oldest = called_back(api)
        for _ in range(4):
            called_back(api, "uid_bob")

        assert walked(alices) == [[], [], [oldest]]

    @pytest.mark.both
    def test_executor_and_task_have_an_index(
        self, api: ContractClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        oldest = api.get(f"{DISPATCHES}{called_back(api)}/").json()
        for _ in range(4):
            called_back(api, "uid_bob")
        monkeypatch.setattr(view, "MAX_EXAMINED", 2)

        for query in ({"executor": "uid_alice"}, {"source": "once", "task": oldest["task"]}):
            assert walked(api, **query) == [[oldest["number"]]]

    def test_period_includes_its_start_and_excludes_its_end(
        self, api: ContractClient, frozen_clock: Any
    ) -> None:
        numbers = []
        for _ in range(3):
            numbers.append(called_back(api))
            frozen_clock.advance(seconds=90)

        after = {"dispatched_after": "2026-03-02T09:01:30Z"}
        before = {"dispatched_before": "2026-03-02T10:01:30+01:00"}
        assert listed(api, **after) == [numbers[2], numbers[1]]
        assert listed(api, **before) == [numbers[0]]
        assert listed(api, **after, dispatched_before="2026-03-02T09:03:00Z") == [numbers[1]]
        assert listed(api, **after, **before) == []

    def test_wrong_filter_is_refused_by_name(
        self, api: ContractClient, subtests: pytest.Subtests
    ) -> None:
        for name, text in (
            ("state", "closed"),
            ("state", "open,failed"),
            ("source", "Once"),
            ("task", "0"),
            ("task", "-1"),
            ("task", "1.0"),
            ("task", "9223372036854775808"),
            ("task", "9" * 5000),
            ("executor", ""),
            ("executor", "u" * 200),
            ("executor", "uid_\x00"),
            ("dispatched_after", "2026-03-02"),
            ("dispatched_after", "2026-03-02T09:00:00"),
            ("dispatched_after", "0000-01-01T00:00:00Z"),
            ("dispatched_before", "2026-03-02T09:00:60Z"),
            ("dispatched_before", "now"),
        ):
            with subtests.test(name, text=text):
                answer = api.get(DISPATCHES, **{name: text})

                assert mistakes(answer) == [name]


def test_cancel_takes_the_dispatch_away_for_good(api: ContractClient, frozen_clock: Any) -> None:
    """S0.28, I55: stock returned, this executor never gets it again, the reason is kept."""
    opened = handed_out(api)

    answer = api.post(f"{DISPATCHES}{opened['number']}/cancel/", {"reason": "Shop closed"})

    assert answer.status_code == 200
    assert answer.json() == {"number": opened["number"], "state": "cancelled"}
    assert Stock.objects.get().handed == 0
    entry = JournalEntry.objects.get(event="cancelled")
    assert (entry.reason, entry.actor.partition(":")[0]) == ("Shop closed", "key")
    frozen_clock.advance(days=1)
    assert api.post(PULL, ALICE).status_code == 204
