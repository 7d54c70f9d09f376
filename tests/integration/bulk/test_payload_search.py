"""Bulk runs over what payloads have at a path, for who may see payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from apps.access import services as access
from apps.access.models import ApiClient
from apps.bulk.models import BulkRun
from apps.bulk.services import carry, runs
from apps.dispatch.models import Dispatch, OnceTask, RotateTask
from apps.jobs.handlers import Cancelled
from apps.jobs.models import Job, bounds_of
from apps.jobs.rules import transitions as t
from tests import callback, factories
from tests.integration.api.contract import ContractClient
from tests.integration.bulk.conftest import again, carry_out, counts
from tests.jobs import job_type, jobs
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
BEIJING: dict[str, Any] = {"order": {"city": "北京"}}
WHERE = "context.order.city:北京"
NEW = "/admin/bulk/new/jobs/cancel/"
API = "/api/v1/jobs/bulk/"
CANCEL: dict[str, Any] = {"verb": "cancel", "filter": {"where": [WHERE]}, "reason": "flood"}
Start = Callable[..., BulkRun]


@pytest.fixture(autouse=True)
def numbers(frozen_clock: Any) -> list[int]:
    """Three jobs in Beijing among others."""
    job_type("mail")
    jobs(2)
    found = jobs(3, context=BEIJING)
    jobs(2, context={"order": {"city": "上海"}})
    return found


@pytest.fixture
def configurer(role_user: Callable[[str], User]) -> User:
    return role_user("configurer")


def cancelled() -> list[int]:
    return [*Job.objects.filter(status=t.CANCELLED).order_by("pk").values_list("pk", flat=True)]


# --- in the admin ---------------------------------------------------------------------------------
@pytest.mark.both
def test_plan_and_run_mean_what_the_list_shows(
    role_client: Callable[[str], Client], numbers: list[int]
) -> None:
    client = role_client("configurer")
    listed = client.get("/admin/jobs/job/", {"where": WHERE})
    url = {str(words): url for words, url in listed.context["bulk_links"]}["Cancel"]
    planned = client.get(url)
    assert f"Payload: {WHERE}" in text_of(planned)
    assert "3 rows match" in text_of(planned)

    form = {**form_of(planned, "reason"), "reason": "flood", "at_most": "3", "rate": "1000"}
    started = client.post(url, form, follow=True)
    run = BulkRun.objects.get()
    [late] = jobs(1, context=BEIJING)
    Job.objects.filter(pk=numbers[0]).update(context={})
    carry_out(run)

    assert run.filter == {"where": [WHERE]}
    assert cancelled() == numbers[1:]
    assert late not in cancelled()
    assert f"Payload: {WHERE}" in text_of(started)


def test_who_may_not_see_payloads_can_neither_plan_nor_start(
    role_client: Callable[[str], Client],
) -> None:
    client = role_client("blind")
    assert client.get(NEW, {"type": "mail"}).status_code == 200
    assert client.get(NEW, {"where": WHERE}).status_code == 403
    assert client.post(f"{NEW}?where={WHERE}", {"reason": "x", "at_most": "3"}).status_code == 403
    assert not BulkRun.objects.exists()


def test_what_is_masked_or_unreadable_leads_back_with_words(
    role_client: Callable[[str], Client], subtests: pytest.Subtests
) -> None:
    client = role_client("configurer")
    said = ("nobody can search for them", "is no search in a payload")
    for where in ["context.password:x", "context.url:https://a:b@c", "password:x"]:
        with subtests.test(where=where):
            answer = client.get(NEW, {"where": where}, follow=True)
            assert answer.redirect_chain[0][0] == "/admin/jobs/job/"
            assert any(words in text_of(answer) for words in said)


def test_run_stops_when_its_starter_may_not_see_payloads_any_more(
    start: Start, configurer: User
) -> None:
    run = start(
        "cancel",
        {"where": [WHERE]},
        actor=f"admin:{configurer.username}",
        bounds=bounds_of(configurer),
    )
    other = start("run_now", {"type": "mail"}, actor=f"admin:{configurer.username}")
    right = Permission.objects.get(codename="view_payload", content_type__app_label="jobs")
    Group.objects.get(name="configurer").permissions.remove(right)

    with pytest.raises(Cancelled, match="may not do this any more"):
        carry_out(run)
    run.refresh_from_db()
    assert (run.state, run.collected) == ("stopped", 0)
    assert carry_out(other)["state"] == "done"


def test_page_of_a_run_hides_what_was_searched_for(
    start: Start, configurer: User, role_client: Callable[[str], Client]
) -> None:
    """Its rows would show which jobs have it."""
    run = start("cancel", {"where": [WHERE], "type": "mail"}, actor=f"admin:{configurer.username}")
    page = f"/admin/bulk/bulkrun/{run.pk}/change/"
    assert WHERE in text_of(role_client("configurer").get(page))
    for role in ("viewer", "blind"):
        hidden = text_of(role_client(role).get(page))
        assert "北京" not in hidden
        assert "Type: mail · Payload: ••••••" in hidden


# --- over REST ------------------------------------------------------------------------------------
def test_program_plans_and_starts_the_same_run(api: ContractClient, numbers: list[int]) -> None:
    planned = api.post(API, {**CANCEL, "dry_run": True}).json()
    assert (planned["matches"], planned["eligible"]) == (3, 3)
    started = api.post(API, {**CANCEL, "at_most": 3})
    assert started.json()["filter"] == {"where": [WHERE]}
    carry_out(BulkRun.objects.get())
    assert cancelled() == numbers


def test_wrong_conditions_are_named(api: ContractClient, subtests: pytest.Subtests) -> None:
    for where, field in [
        (["context.password:x"], "filter.where"),
        (["context.url:https://a:b@c"], "filter.where"),
        (["params.a:x"], "filter.where"),
        (["context.a:1", "context.b:2", "context.c:3", "context.d:4"], "filter.where"),
        (["context.a:1", 7], "filter.where[1]"),
        (WHERE, "filter.where"),
    ]:
        for dry_run in [True, False]:
            with subtests.test(where=where, dry_run=dry_run):
                body = {**CANCEL, "filter": {"where": where}, "dry_run": dry_run, "all": True}
                answer = api.post(API, body)
                assert answer.status_code == 400
                assert [each["field"] for each in answer.json()["errors"]] == [field]
                assert not BulkRun.objects.exists()


def test_key_that_reads_nothing_cannot_search(make_key: Callable[..., str]) -> None:
    blind = ContractClient(make_key(scopes=["operate"]))
    answer = blind.post(API, {**CANCEL, "dry_run": True})
    assert answer.status_code == 403
    assert "lacks the scope read, which the filter where needs" in answer.json()["detail"]
    assert blind.post(API, {**CANCEL, "all": True}).status_code == 403
    plain = {**CANCEL, "filter": {"type": "mail"}, "dry_run": True}
    assert blind.post(API, plain).status_code == 200
    seeing = ContractClient(make_key(scopes=["operate", "read"]))
    assert seeing.post(API, {**CANCEL, "dry_run": True}).json()["matches"] == 3


def test_run_stops_when_its_key_may_not_read_any_more(make_key: Callable[..., str]) -> None:
    key = make_key(scopes=["operate", "read"])
    ContractClient(key).post(API, {**CANCEL, "all": True})
    row = access.find(key.partition(".")[0])
    ApiClient.objects.filter(pk=row.pk).update(scopes=["operate"])
    with pytest.raises(Cancelled, match="may not do this any more"):
        carry_out(BulkRun.objects.get())
    assert cancelled() == []


# --- other rows -----------------------------------------------------------------------------------
@pytest.mark.both
def test_dispatches_and_tasks_are_found_by_params(api: ContractClient) -> None:
    ours, other = factories.user("uid_ann"), factories.user("uid_bob")
    task = factories.once_task(ours, params=BEIJING)
    factories.once_task(other, params={"order": {"city": "上海"}})
    rotation = factories.rotation(ours, params=BEIJING)
    factories.rotation(other, params={"order": {"city": "上海"}})
    for user in (ours, other):
        assert isinstance(callback.take_next(user), Dispatch)
    wanted = {"filter": {"where": ["params.order.city:北京"]}, "reason": "flood", "all": True}

    api.post("/api/v1/dispatches/bulk/", {"verb": "cancel", **wanted})
    for kind in ("once-tasks", "rotate-tasks"):
        api.post(f"/api/v1/{kind}/bulk/", {"verb": "pause", **wanted})
    for run in BulkRun.objects.all():
        carry_out(run)

    assert [each.executor for each in Dispatch.objects.filter(state="cancelled")] == [ours]
    assert [*OnceTask.objects.filter(status="paused")] == [task]
    assert [*RotateTask.objects.filter(status="paused")] == [rotation]


@pytest.mark.both
def test_params_are_searched_with_their_own_right(
    role_client: Callable[[str], Client], role_user: Callable[[str], User]
) -> None:
    operator, where = role_client("blind"), {"where": "params.order.city:北京"}
    urls = ("dispatches/cancel", "once-tasks/pause", "rotate-tasks/pause")

    def statuses() -> list[int]:
        return [operator.get(f"/admin/bulk/new/{url}/", where).status_code for url in urls]

    assert statuses() == [403] * 3
    right = Permission.objects.get(codename="view_payload", content_type__app_label="dispatch")
    role_user("blind").user_permissions.add(right)
    assert statuses() == [200] * 3
    assert operator.get(NEW, {"where": WHERE}).status_code == 403


# --- what is masked later -------------------------------------------------------------------------
def test_run_stops_with_words_when_what_it_searches_is_masked_later(
    start: Start,
    configurer: User,
    role_client: Callable[[str], Client],
    numbers: list[int],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carry, "ROUND", 1)
    run = start("cancel", {"where": [WHERE]}, actor=f"admin:{configurer.username}")
    carrier = carry.Carrier(run)
    while carrier.round().done < 1:
        pass
    usual = settings.MASKED_KEYS
    settings.MASKED_KEYS = (*usual, "city")

    with pytest.raises(Cancelled, match="searches for a value that is masked now"):
        carry_out(run)

    assert counts(run) == ("stopped", 3, 1, 0, 0)
    page = role_client("configurer").get(f"/admin/bulk/bulkrun/{run.pk}/change/")
    said = text_of(page)
    assert "Stopped The filter searches for a value that is masked now." in said
    assert "Payload: context.order.city:••••••" in said
    assert "北京" not in said

    # With the old setting it goes on, and changes the others.
    settings.MASKED_KEYS = usual
    Job.objects.filter(pk=run.job).update(status=t.CANCELLED)
    runs.resume(run=again(run), actor="admin:olga", reason="unmasked again")
    carry_out(run)
    assert counts(run) == ("done", 3, 3, 0, 0)
    assert cancelled() == numbers


def test_program_does_not_read_what_is_masked_later(
    api: ContractClient, start: Start, configurer: User, settings: Any
) -> None:
    run = start("cancel", {"where": [WHERE], "type": "mail"}, actor=f"admin:{configurer.username}")
    address = f"/api/v1/bulk/{run.pk}/"
    assert api.get(address).json()["filter"] == {"where": [WHERE], "type": ["mail"]}
    settings.MASKED_KEYS = (*settings.MASKED_KEYS, "city")
    hidden = ["context.order.city:••••••"]
    assert api.get(address).json()["filter"] == {"where": hidden, "type": ["mail"]}
