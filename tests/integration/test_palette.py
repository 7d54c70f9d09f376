"""The palette: what it finds while somebody types, what it offers to do, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import OperatorScope
from apps.jobs.models import Job, JobScope
from tests import factories
from tests.integration.test_search import failed_job
from tests.jobs import job_type, jobs
from tests.statements import sent_by

pytestmark = pytest.mark.django_db


def ask(client: Client, typed: str) -> Any:
    answer = client.get(reverse("admin:search"), {"part": "hits", "term": typed})
    assert answer.status_code == 200, typed[:40]
    return answer


def found(client: Client, typed: str) -> dict[str, list[str]]:
    groups = ask(client, typed).context["groups"]
    return {group.title: ["".join(each.title) for each in group.options] for group in groups}


def person(client: Client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


def test_best_hit_comes_first_then_what_can_be_done_then_the_others(admin_client: Client) -> None:
    job_type("price-recognise")
    factories.group("gid_check", ["uid_ann"], title="Price check")
    factories.once_task(factories.member("uid_ann"), title="Shelf prices")

    groups = found(admin_client, "price")

    assert [*groups] == ["Best", "Do", "Tasks and jobs", "Pages"]
    assert groups["Best"] == ["Price check"]
    assert groups["Tasks and jobs"] == ["Shelf prices"]
    assert all(len(titles) <= 4 for titles in groups.values())


def test_action_leads_to_a_page_that_asks_and_changes_nothing(admin_client: Client) -> None:
    job_type("price")
    failed_job("HTTP 503", type="price")
    before = [*Job.objects.values()]
    do = next(g for g in ask(admin_client, ">price").context["groups"] if g.title == "Do")
    assert {"Pause price…", "Retry all failed jobs of price…"} <= {
        "".join(o.title) for o in do.options
    }
    for option in do.options:
        assert option.asks
        page = admin_client.get(option.url)
        assert page.status_code == 200 and b"<form" in page.content
    assert [*Job.objects.values()] == before
    assert found(admin_client, ">pause price")["Do"] == ["Pause price…"]
    assert "Add once task" in found(admin_client, ">add")["Do"]


def test_signs_narrow_it_to_actions_or_people(admin_client: Client) -> None:
    factories.user("uid_ann", title="Anna of the till")
    factories.once_task(factories.member("uid_ann"), title="Anna counts")
    assert [*found(admin_client, "@anna")] == ["People and groups"]
    assert found(admin_client, "@of the till") == {"People and groups": ["Anna of the till"]}
    assert [*found(admin_client, ">anna")] in ([], ["Do"])


def test_action_is_found_by_its_verb_without_a_sign(admin_client: Client) -> None:
    job_type("price-recognise")
    job_type("sms")

    assert found(admin_client, "pause price") == {"Do": ["Pause price-recognise…"]}
    # However many others, which cannot be paused, are called alike.
    for name in ("uid_price-1", "uid_price-2", "uid_price-3"):
        factories.user(name)
    assert found(admin_client, "pause price") == {"Do": ["Pause price-recognise…"]}
    assert found(admin_client, "juggle price") == {}
    # Nobody acts on all jobs of the platform's own types.
    job_type("deliver")
    assert "Do" not in found(admin_client, "retry deliver")


def test_payloads_are_searched_by_path_for_who_may_see_them(
    admin_client: Client, role_client: Callable[[str], Client]
) -> None:
    job_type()
    jobs(2, context={"city": "Rome"})
    [option] = ask(admin_client, "context.city:Rome").context["groups"][-1].options
    assert option.detail == "2 jobs of the newest 10,000"
    assert admin_client.get(option.url).status_code == 200
    assert "In payloads" not in found(role_client("viewer"), "context.city:Rome")


def test_nobody_is_offered_what_others_have_or_what_they_may_not_do(
    role_client: Callable[[str], Client], subtests: pytest.Subtests
) -> None:
    for name in ("price-own", "price-foreign"):
        job_type(name)
        jobs(1, name, key="price-1")
    mine, other = factories.user("uid_price"), factories.user("uid_price_foreign")
    for executor, title in ((mine, "Price mine"), (other, "Price foreign")):
        factories.once_task(executor, title=title)
    client, viewer = role_client("operator"), role_client("viewer")
    JobScope.objects.create(operator=person(client), type="price-own")
    OperatorScope.objects.create(operator=person(client), executor=mine)
    for typed in ("price", ">price", "@price", ">retry price", "price-1"):
        with subtests.test(typed=typed):
            assert "foreign" not in str(found(client, typed))
            assert "Do" not in found(viewer, typed)


def test_any_text_is_harmless(admin_client: Client, subtests: pytest.Subtests) -> None:
    factories.user("uid_ann", title="100% “O'Hara” مرحبا 😀")
    for typed in ("", "%", "_", "'", '"', "\\", ">", "@", "a\0b", "<script>x</script>", "(["):
        with subtests.test(typed=typed):
            assert b"<script" not in ask(admin_client, typed).content
    ask(admin_client, "x" * 10_000)
    assert [*found(admin_client, "@100%")] == ["People and groups"]
    assert found(admin_client, "@100_") == {}


def test_a_key_press_takes_a_handful_of_statements_however_many_rows(admin_client: Client) -> None:
    typed = ("4711", "order-7", "some words", "type", ">retry type", "@some", "pause uid")

    def statements() -> dict[str, int]:
        return {each: len(sent_by(partial(ask, admin_client, each))) for each in typed}

    job_type("type-0")
    statements()
    for n in range(1, 30):
        job_type(f"type-{n}")
        jobs(1, f"type-{n}", key="order-7")
        factories.user(f"uid_{n}", title="some words")
    assert max(statements().values()) <= 40, statements()
