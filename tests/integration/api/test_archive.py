"""The archive over REST: the same addresses, and a list of its own. S4.16."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from tests import factories
from tests.history import archived, ended, move, where
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.api.test_jobs import JOBS, REASON, listed
from tests.jobs import jobs

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def mail(frozen_clock: Any) -> Any:
    return factories.job_type("mail", max_attempts=3)


def test_archived_job_has_the_body_of_any_job(api: ContractClient) -> None:
    """S4.16: with the time at which it went there."""
    [number] = ended(status="failed", key="order-1", memo="no address")
    before = api.get(f"{JOBS}{number}/").json()
    assert before["archived_at"] is None
    move()
    after = api.get(f"{JOBS}{number}/").json()
    assert after["archived_at"] == clock.now().isoformat().replace("+00:00", "Z")
    assert after["order_key"] is None
    changed = {"archived_at", "order_key"}
    assert {k: v for k, v in after.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }


def test_journal_of_an_archived_job_is_read(api: ContractClient, frozen_clock: Any) -> None:
    number = int(api.post(JOBS, {"type": "mail"}).json()["id"])
    api.post(f"{JOBS}{number}/cancel/", REASON)
    before = api.get(f"{JOBS}{number}/journal/").json()["results"]
    assert [each["event"] for each in before] == ["cancelled"]
    frozen_clock.advance(days=8)
    move()
    assert where(number) == ["jobs_archived"]
    assert api.get(f"{JOBS}{number}/journal/").json()["results"] == before


def test_retry_alone_brings_it_back(api: ContractClient) -> None:
    """S4.16."""
    [number] = archived(status="failed")
    answers = [api.post(f"{JOBS}{number}/{v}/", REASON) for v in ("cancel", "run-now", "mark-done")]
    answers += [api.patch(f"{JOBS}{number}/", {**REASON, "version": 3, "priority": 1})]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (409, "archived")
    answer = api.post(f"{JOBS}{number}/retry/", REASON)
    assert (answer.json()["status"], answer.json()["archived_at"]) == ("ready", None)
    assert where(number) == ["jobs_job"]


def test_list_is_of_the_archive_or_of_the_others(api: ContractClient) -> None:
    """S4.16."""
    old = archived(3)
    [new] = jobs(1)
    assert listed(api) == listed(api, archived="false") == [str(new)]
    assert listed(api, archived="true") == [str(number) for number in reversed(old)]


def test_filters_of_the_archive(api: ContractClient) -> None:
    """S4.16: what has an index; the rest is refused by name."""
    factories.job_type("sms")
    [keyed] = archived(key="order-1")
    [wrong] = archived(status="failed", error_key="e" * 32)
    [text] = archived(type="sms", ago=timedelta(days=30))
    for query, number in (
        ({"type": "sms"}, text),
        ({"key": "order-1"}, keyed),
        ({"type": "mail", "key": "order-1"}, keyed),
        ({"error_key": "e" * 32}, wrong),
        ({"type": "mail", "error_key": "e" * 32}, wrong),
        ({"created_before": "2026-02-10T00:00:00Z"}, text),
    ):
        assert listed(api, archived="true", **query) == [str(number)], query
    for name, value in (
        ("status", "failed"),
        ("user_id", "uid_ann"),
        ("worker", "w"),
        ("host", "h"),
        ("stage", "s"),
        ("memo", "x"),
        ("finished_after", "2026-02-10T00:00:00Z"),
    ):
        answer = api.get(JOBS, archived="true", **{name: value})
        assert mistakes(answer) == [name]


def test_live_jobs_are_found_by_their_error_too(api: ContractClient) -> None:
    jobs(1)
    [wrong] = jobs(1, error_key="e" * 32)
    assert listed(api, error_key="e" * 32) == [str(wrong)]


def test_bound_key_sees_its_own_only(api_for: ApiFor) -> None:
    """S2.13: in the archive as elsewhere."""
    factories.job_type("sms")
    [mine], [other] = archived(type="sms"), archived()
    bound = api_for(job_types=["sms"])
    rows = bound.get(JOBS, archived="true").json()["results"]
    assert [row["id"] for row in rows] == [str(mine)]
    assert bound.get(f"{JOBS}{mine}/").status_code == 200
    assert bound.get(f"{JOBS}{other}/").status_code == 404
    assert bound.post(f"{JOBS}{other}/retry/", REASON).status_code == 404
