"""Lists over REST by what payloads have at a path. S2.13."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from apps.dispatch.api import tasks as task_view
from apps.jobs.api import jobs as job_view
from apps.jobs.models import Job
from tests import factories
from tests.history import archived
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.dispatch import housekeeping
from tests.jobs import job_type, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.both]
BASE = "/api/v1/"
BEIJING: dict[str, Any] = {"order": {"city": "北京"}, "items": [{"sku": "S7"}], "password": "x"}
SHANGHAI: dict[str, Any] = {"order": {"city": "上海"}}


@pytest.fixture(autouse=True)
def world(frozen_clock: Any) -> None:
    """Of each list two rows that differ by the city, the older one in Beijing."""
    job_type("mail")
    job_type("web")
    ann = factories.user("uid_ann")
    for days, payload in ((2, BEIJING), (1, SHANGHAI)):
        jobs(1, context=payload, result=payload, user_id="uid_ann")
        archived(context=payload)
        factories.once_task(ann, params=payload)
        factories.rotation(ann, params=payload)
        housekeeping.archived(ago=timedelta(days=40 + days), params=payload)
        housekeeping.ended(ago=timedelta(days=days), params=payload, result=payload)


LISTS = {
    "jobs/": ("context", "id"),
    "jobs/?archived=true": ("context", "id"),
    "dispatches/": ("params", "number"),
    "dispatches/?archived=true": ("params", "number"),
    "once-tasks/": ("params", "id"),
    "rotate-tasks/": ("params", "id"),
    "rotate-tasks/?state=open": ("params", "id"),
    "once-tasks/?state=open": ("params", "id"),
}


def ask(api: ContractClient, path: str, *where: str, **query: Any) -> Any:
    """GET with `where` repeated."""
    parts = [f"where={quote(each)}" for each in where]
    parts += [f"{name}={value}" for name, value in query.items()]
    return api.get(f"{BASE}{path}{'&' if '?' in path else '?'}{'&'.join(parts)}")


def results(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_list_has_the_rows_for_which_every_condition_holds(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    for path, (column, key) in LISTS.items():
        with subtests.test(path):
            shanghai, beijing = (row[key] for row in results(ask(api, path)))
            for where, expected in (
                (["order.city:北京"], [beijing]),
                (["order.city:上海"], [shanghai]),
                (["order.city:北京", "items[0].sku:S7"], [beijing]),
                (["order.city:北京", "items[0].sku:S8"], []),
                (["order.city:北"], []),
            ):
                found = results(ask(api, path, *(f"{column}.{each}" for each in where)))
                assert [row[key] for row in found] == expected, where


def test_other_filters_hold_too(api: ContractClient) -> None:
    assert len(results(ask(api, "jobs/", "context.order.city:北京", user_id="uid_ann"))) == 1
    assert results(ask(api, "jobs/", "context.order.city:北京", user_id="uid_bob")) == []
    assert len(results(ask(api, "jobs/", "result.order.city:北京", type="mail"))) == 1
    assert len(results(ask(api, "dispatches/", "result.order.city:北京"))) == 1
    assert results(ask(api, "dispatches/", "params.order.city:北京", executor="uid_bob")) == []


def test_what_is_masked_or_unreadable_is_refused(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    """Also for a key with the scope payload: one rule for everybody."""
    for path, (column, _key) in LISTS.items():
        for where, said in (
            (f"{column}.password:x", "Values of password are masked"),
            (f"{column}.url:https://ann:pw@shop.example", "has a password or token"),
            (f"{column}.order", "is no search in a payload"),
            ("checkpoint.a:x", "is no search in a payload"),
            (f"{column}.a b:x", "cannot be searched for"),
            (f"{column}.a:" + "x" * 201, "at most 200 letters"),
        ):
            with subtests.test(path, where=where):
                answer = ask(api, path, where)

                assert mistakes(answer) == ["where"]
                assert said in answer.json()["detail"]


def test_at_most_three_conditions_are_taken(api: ContractClient) -> None:
    for path, (column, _key) in LISTS.items():
        assert results(ask(api, path, *(f"{column}.a{n}:x" for n in range(3)))) == [], path
        assert mistakes(ask(api, path, *(f"{column}.a{n}:x" for n in range(4)))) == ["where"], path


def test_key_that_reads_masks_searches_what_it_reads(api_for: ApiFor) -> None:
    """Without the scope payload, too; what is masked for it, it cannot guess."""
    reader = api_for(scopes=["read"])
    assert len(results(ask(reader, "jobs/", "context.order.city:北京"))) == 1
    assert ask(reader, "jobs/", "context.password:x").status_code == 400


def test_bound_key_finds_nothing_of_others(api_for: ApiFor) -> None:
    jobs(1, "web", context=BEIJING)
    for terms in ({"job_types": ["web"]}, {"executors": ["uid_bob"]}):
        api = api_for(**terms)
        found = results(ask(api, "jobs/", "context.order.city:北京"))
        assert [row["type"] for row in found] == (["web"] if "job_types" in terms else [])
    bobs = api_for(executors=["uid_bob"])
    for path in ("dispatches/", "dispatches/?archived=true", "once-tasks/", "rotate-tasks/"):
        assert results(ask(bobs, path, "params.order.city:北京")) == []


def test_next_goes_on_with_every_condition(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be empty and have a next one; each examines a bounded number of rows."""
    monkeypatch.setattr(job_view, "MAX_EXAMINED", 1)
    monkeypatch.setattr(task_view.paging, "MAX_EXAMINED", 1)
    monkeypatch.setattr(task_view, "MAX_ROTATIONS", 1)
    for path in ("jobs/", "once-tasks/", "rotate-tasks/", "rotate-tasks/?state=open"):
        column, _key = LISTS[path]

        first = ask(api, path, f"{column}.order.city:北京", f"{column}.items[0].sku:S7")
        assert results(first) == [], path
        second = api.get(first.json()["next"])

        assert len(results(second)) == 1, path
        assert second.json()["next"] is None, path


def test_cursor_belongs_to_all_of_its_conditions(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_view, "MAX_EXAMINED", 1)
    following = ask(api, "jobs/", "context.a:1", "context.b:2").json()["next"]
    assert api.get(following).status_code == 200
    for part in ("where=context.a%3A1&", "where=context.b%3A2&"):
        assert part in following
        assert api.get(following.replace(part, "")).status_code == 400


def test_condition_is_taken_as_it_is_written(api: ContractClient) -> None:
    """Blanks count, and a colon of the value is one."""
    Job.objects.filter(context=SHANGHAI).update(context={"note": " a:b "})
    assert len(results(ask(api, "jobs/", "context.note: a:b "))) == 1
    assert results(ask(api, "jobs/", "context.note:a:b")) == []
