"""Why nothing: every task that could be meant, by what stands against it first. S0.31, U4."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from apps.dispatch.models import TASK_MODELS, Executor
from apps.dispatch.services import explain, why_nothing
from apps.dispatch.services.why_nothing import WhyNothing
from tests import factories
from tests.callback import take_next
from tests.frozen import FrozenClock
from tests.integration.dispatch import plans
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

HOUR = timedelta(hours=1)


@pytest.fixture
def alice(frozen_clock: FrozenClock) -> Executor:
    factories.group("gid_a", ["uid_alice", "uid_bob"])
    return factories.member("uid_alice")


def grouped(found: WhyNothing) -> dict[str, tuple[int, Any]]:
    return {group.code: (group.count, group.until) for group in found.groups}


def test_tasks_are_grouped_by_their_first_reason(
    alice: Executor, frozen_clock: FrozenClock
) -> None:
    now, group = frozen_clock.instant, factories.member("gid_a")
    asleep = factories.group("gid_b", ["uid_alice"], enabled=False)
    factories.once_task(group, "taken", lease_seconds=600)
    take_next(factories.member("uid_bob"))
    for hours in (2, 1):
        factories.once_task(alice, f"in {hours} h", start_at=now + hours * HOUR)
    factories.rotation(alice, start_at=now + 3 * HOUR, rule={"every_minutes": 30})
    factories.once_task(alice, "paused", status="paused")
    factories.once_task(asleep, "of the disabled group")
    factories.once_task(alice, "over", start_at=now - timedelta(days=7))
    factories.once_task(alice, "ended", start_at=now - 2 * HOUR, end_at=now)
    factories.once_task(factories.user("uid_eve"), "of somebody else")

    found = why_nothing.why_nothing(alice)

    assert grouped(found) == {
        "not_due": (3, now + HOUR),
        "quota_used": (1, now + timedelta(minutes=10)),
        "paused": (1, None),
        "executor_disabled": (1, None),
    }
    assert (found.until, found.more) == (now + timedelta(minutes=10), False)


def test_more_tasks_than_are_looked_at_are_said(alice: Executor, monkeypatch: Any) -> None:
    monkeypatch.setattr(why_nothing, "MAX_TASKS", 7)
    for _ in range(8):
        factories.once_task(alice, status="paused")
    found = why_nothing.why_nothing(alice)
    assert grouped(found) == {"paused": (7, None)}
    assert len(found.groups[0].examples) == why_nothing.MAX_EXAMPLES
    assert found.more


def test_queries_do_not_grow_with_the_tasks(
    alice: Executor, django_assert_max_num_queries: Any
) -> None:
    factories.once_task(alice)
    with django_assert_max_num_queries(20) as few:
        why_nothing.why_nothing(alice)
    for _ in range(40):
        factories.once_task(factories.member("gid_a"))
    with django_assert_max_num_queries(len(few)):
        why_nothing.why_nothing(alice)


@plans.in_worlds(20)
def test_each_reason_is_the_one_that_explain_gives(
    world: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    with plans.built(world, frozen_clock) as alice:
        for group in why_nothing.why_nothing(alice).groups:
            for each in group.examples:
                task = TASK_MODELS[each.task.source].objects.get(pk=each.task.pk)
                alone = explain.explain(executor=alice, task=task)
                assert each.explanation == alone
                assert alone.reasons[0].code == group.code


# --- the page -------------------------------------------------------------------------------------
def why(client: Client, executor: Executor) -> str:
    return text_of(client.get(f"/admin/dispatch/executor/{executor.pk}/why/"))


def test_page_names_the_open_dispatch_first(alice: Executor, admin_client: Client) -> None:
    assert "No task reaches it." in why(admin_client, alice)
    factories.once_task(alice, "Count")
    factories.once_task(alice, "Later")
    take_next(alice)
    text = why(admin_client, alice)
    assert "uid_alice : has Count in hand until 2026-03-02 10:00:00 UTC : finish or release" in text
    assert "open dispatch 2 tasks" in text
    page = admin_client.get(f"/admin/dispatch/executor/{alice.pk}/change/")
    assert f"/admin/dispatch/executor/{alice.pk}/why/" in page.content.decode()


def test_page_names_what_could_come_next(
    alice: Executor, frozen_clock: FrozenClock, admin_client: Client
) -> None:
    for hours in (3, 1, 2):
        start = frozen_clock.instant + hours * HOUR
        factories.once_task(alice, f"Shelf check {hours}", start_at=start)
    text = why(admin_client, alice)
    assert "Next: Shelf check 1 , at 2026-03-02 10:00:00 UTC at the earliest." in text
    places = [text.index(f"Shelf check {hours}") for hours in (1, 2, 3)]
    assert places == sorted(places)


def test_page_says_when_there_is_something(alice: Executor, admin_client: Client) -> None:
    for _ in range(2):
        factories.once_task(alice, status="paused")
    assert "Waiting alone changes nothing." in why(admin_client, alice)
    factories.once_task(alice)
    text = why(admin_client, alice)
    assert "A pull hands a task out now. can have it 1 task" in text


def test_titles_that_an_operator_may_not_see_stay_hidden(alice: Executor, limited: Any) -> None:
    factories.once_task(factories.member("gid_a"), "Secret", status="paused")
    text = why(limited(alice), alice)
    assert "Secret" not in text
    assert "not yours to see" in text


def test_titles_are_shown_to_those_who_may_see_such_rows(
    alice: Executor, client: Client, subtests: Any
) -> None:
    """The page of an executor and this one need the right to see executors alone."""
    own = {
        "oncetask": factories.once_task(alice, "Once secret", status="paused").title,
        "rotatetask": factories.rotation(alice, "Rotated secret").title,
        "dispatch": factories.once_task(alice, "Held secret", priority=9).title,
    }
    take_next(alice)
    person = User.objects.create_user("eve", is_staff=True)
    for granted in ("executor", *own):
        permission = Permission.objects.get(codename=f"view_{granted}")
        person.user_permissions.set([permission, Permission.objects.get(codename="view_executor")])
        client.force_login(
            User.objects.get(pk=person.pk), backend="django.contrib.auth.backends.ModelBackend"
        )
        for page in ("change", "why"):
            with subtests.test(granted=granted, page=page):
                answer = client.get(f"/admin/dispatch/executor/{alice.pk}/{page}/")
                text = text_of(answer)
                assert "not yours to see" in text
                # What she has in hand is a once task, too.
                shown = {granted, "dispatch"} if granted == "oncetask" else {granted}
                hidden = {title for kind, title in own.items() if kind not in shown}
                assert not any(title in text for title in hidden)
                assert granted == "executor" or own[granted] in text
