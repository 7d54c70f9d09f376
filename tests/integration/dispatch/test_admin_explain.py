"""Why not: two clicks from the list of executors to the answer. S0.31, U4."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.admin.explain import WORDS
from apps.dispatch.models import Executor
from apps.dispatch.rules.explain import CODES
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db


def asked(client: Client, **query: Any) -> str:
    answer = client.get(reverse("admin:dispatch_executor_explain"), query)
    assert answer.status_code == 200
    return text_of(answer)


def test_every_code_has_its_word() -> None:
    assert set(WORDS) == set(CODES)


def test_answer_shows_reasons_and_instants(
    alice: Executor, admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S0.31: every reason that holds, and when it could change."""
    task = factories.once_task(alice, "Check the till", lease_seconds=600)
    taken: Any = callback.take_next(alice)

    text = asked(admin_client, executor="uid_alice", task=f"once:{task.pk}")

    assert "uid_alice cannot have it now." in text
    assert f"uid_alice holds it as dispatch {taken.pk}" in text
    assert "Its quota of 1 is used up." in text
    assert text.count("09:10") == 2


def test_other_occurrences_of_a_rotation_are_a_click_away(
    alice: Executor, admin_client: Client, frozen_clock: FrozenClock
) -> None:
    task = factories.rotation(alice)
    query = {"executor": "uid_alice", "task": f"rotate:{task.pk}"}
    later = "2026-03-02T09:30:00+00:00"

    page = admin_client.get(reverse("admin:dispatch_executor_explain"), query)

    assert "occurrence_at=2026-03-02T09%3A30%3A00%2B00%3A00" in page.content.decode()
    assert "not due" in asked(admin_client, **query, occurrence_at=later)


def test_what_there_is_not_is_shown(
    alice: Executor, admin_client: Client, subtests: pytest.Subtests
) -> None:
    factories.group("gid_a")
    right = {"executor": "uid_alice", "task": f"once:{factories.once_task(alice).pk}"}
    cases: list[tuple[dict[str, str], str]] = [
        ({"executor": "uid_nobody"}, "There is no executor &#x27;uid_nobody&#x27;."),
        ({"executor": "gid_a"}, "There is no executor"),
        ({"executor": ""}, "This field is required."),
        ({"task": "once:999"}, "There is no task once:999"),
        ({"task": "the till"}, "Write kind and number, like once:12 or rotate:3."),
        ({"task": "once:" + "9" * 30}, "Write kind and number"),
        ({"occurrence_at": "yesterday"}, "yesterday is not a time;"),
        ({"occurrence_at": "2026-03-02T09:30:00"}, "is not a time;"),
        ({"occurrence_at": "2026-03-02T09:30:00+00:00"}, "A once task has one occurrence"),
    ]
    for changes, message in cases:
        with subtests.test(changes=changes):
            query = {**right, **changes}
            answer = admin_client.get(reverse("admin:dispatch_executor_explain"), query)
            assert answer.status_code == 200
            assert message in answer.content.decode()
            assert "have it now" not in answer.content.decode()


def test_page_of_a_user_asks_about_the_tasks_that_reach_it(
    alice: Executor, admin_client: Client
) -> None:
    """S0.31: the second click."""
    group = factories.group("gid_a", ["uid_alice"])
    own, of_group = factories.once_task(alice), factories.rotation(group)
    strange = factories.once_task(factories.user("uid_bob"))
    page = admin_client.get(reverse("admin:dispatch_executor_change", args=[alice.pk]))
    html = page.content.decode()
    for task in (own, of_group):
        assert f'<option value="{task.source}:{task.pk}"' in html
    assert f'<option value="once:{strange.pk}"' not in html
    address = reverse("admin:dispatch_executor_explain")
    assert f'<form id="why-not" method="get" action="{address}"' in html
    assert "task" not in form_of(page, "title")


def test_page_of_a_task_asks_for_whom(alice: Executor, admin_client: Client) -> None:
    for task in (factories.once_task(alice), factories.rotation(alice)):
        page = admin_client.get(reverse(f"admin:dispatch_{task.source}task_change", args=[task.pk]))
        field = f'name="task" value="{task.source}:{task.pk}" form="why-not">'
        assert f'<input type="hidden" {field}' in page.content.decode()
        assert form_of(page, "title")["executor"] == "uid_alice"


def test_others_are_as_unknown_as_none(limited: Any, alice: Executor) -> None:
    olga = limited(alice)
    label = f"once:{factories.once_task(alice).pk}"
    factories.user("uid_bob")
    hidden = factories.once_task(factories.group("gid_a", ["uid_alice"]), "Secret")
    assert "can have it now" in asked(olga, executor="uid_alice", task=label)
    assert "There is no executor 'uid_bob'." in asked(olga, executor="uid_bob", task=label)
    text = asked(olga, executor="uid_alice", task=f"once:{hidden.pk}")
    assert f"There is no task once:{hidden.pk}" in text
    assert "Secret" not in text
    page = olga.get(reverse("admin:dispatch_executor_change", args=[alice.pk]))
    assert f"once:{hidden.pk}" not in page.content.decode()
