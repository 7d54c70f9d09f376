"""Bulk runs over dispatches: only open ones end, within the limits of who started them. I65."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.bulk.models import BulkRun
from apps.dispatch.models import Dispatch, OperatorScope, Stock
from apps.dispatch.services import invariants
from apps.jobs.models import bounds_of
from tests import callback, factories
from tests.callback import states
from tests.integration.bulk.conftest import carry_out
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
Start = Callable[..., BulkRun]


def handed_out(count: int, group: Any) -> list[Dispatch]:
    """A dispatch to each of so many members of the group."""
    factories.once_task(group, mode="multi", dispatch_times=count)
    taken = [callback.take_next(factories.member(f"uid_{n}")) for n in range(count)]
    return [each for each in taken if isinstance(each, Dispatch)]


@pytest.fixture
def open_ones() -> list[Dispatch]:
    return handed_out(4, factories.group("gid_sales", [f"uid_{n}" for n in range(4)]))


@pytest.mark.parametrize(
    ("verb", "state"), [("cancel", "cancelled"), ("release", "released"), ("expire", "expired")]
)
def test_each_action_ends_open_dispatches_and_returns_the_quota(
    start: Start, open_ones: list[Dispatch], verb: str, state: str
) -> None:
    callback.finish(factories.member("uid_0"))
    run = start(verb, {"state": "open"}, kind="dispatches")
    carry_out(run)
    run.refresh_from_db()
    still_open = Dispatch.objects.filter(state="open").count()
    assert (run.state, run.failed, still_open) == ("done", 0, 0)
    assert states() == ["succeeded", *[state] * 3]
    assert run.done == 3
    assert Stock.objects.get().handed == Dispatch.objects.filter(holds_stock=True).count()
    [quotas] = [each for each in invariants.CHECKS if each.name == "quotas"]
    assert [*quotas.run(100).breaches] == []


def test_what_has_ended_is_skipped(start: Start, open_ones: list[Dispatch]) -> None:
    start_first = start("cancel", {"ids": [str(open_ones[0].pk)]}, kind="dispatches")
    carry_out(start_first)
    run = start("release", {"executor": "gid_sales"}, kind="dispatches")
    carry_out(run)
    run.refresh_from_db()
    assert (run.collected, run.done, run.skipped) == (4, 3, 1)
    assert run.rows.get(outcome="skipped").why == "cancelled"


@pytest.mark.both
def test_limited_person_ends_only_dispatches_within_the_limits(
    start: Start, operator: User, open_ones: list[Dispatch]
) -> None:
    OperatorScope.objects.create(operator=operator, executor=factories.member("uid_2"))
    operator = User.objects.get(pk=operator.pk)
    run = start("cancel", {"state": "open"}, kind="dispatches", bounds=bounds_of(operator))
    carry_out(run)
    assert states() == ["open", "open", "cancelled", "open"]


@pytest.mark.both
def test_list_leads_to_the_plan_and_the_plan_to_the_run(
    role_client: Callable[[str], Client], open_ones: list[Dispatch]
) -> None:
    page = role_client("operator")
    listed = page.get("/admin/dispatch/dispatch/", {"state": "open", "q": "uid_1"})
    urls = {str(words): url for words, url in listed.context["bulk_links"]}
    plan = page.get(urls["Release"])
    assert "1 row matches" in text_of(plan)
    form = form_of(plan, "once")
    answer = page.post(urls["Release"], {**form, "reason": "ill"})
    run = BulkRun.objects.get()
    assert answer.url == f"/admin/bulk/bulkrun/{run.pk}/change/"
    assert run.filter == {"text": "uid_1", "state": ["open"]}
    carry_out(run)
    assert states() == ["open", "released", "open", "open"]
    assert str(open_ones[1].pk) in text_of(page.get(answer.url))
