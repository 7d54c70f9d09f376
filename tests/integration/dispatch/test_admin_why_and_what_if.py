"""Why not, and what if: two clicks from the list of executors to the answer, and the button on the
forms of tasks. S0.31, U3, U4."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.admin.explain import WORDS
from apps.dispatch.admin.preview import runs
from apps.dispatch.admin.what_if import compared
from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.rules.explain import CODES
from apps.dispatch.rules.preview import Item
from apps.dispatch.services import tasks
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.api.world import checksum
from tests.pages import change_url, form_of, page_of, text_of

pytestmark = pytest.mark.django_db


def asked(client: Client, **query: Any) -> str:
    answer = client.get(reverse("admin:dispatch_executor_explain"), query)
    assert answer.status_code == 200
    return text_of(answer)


def test_every_code_has_its_word() -> None:
    assert set(WORDS) == set(CODES)


def test_answer_shows_reasons_and_instants(alice: Executor, admin_client: Client) -> None:
    """S0.31: every reason that holds, and when it could change."""
    task = factories.once_task(alice, "Check the till", lease_seconds=600)
    taken: Any = callback.take_next(alice)

    text = asked(admin_client, executor="uid_alice", task=f"once:{task.pk}")

    assert "uid_alice cannot have it now." in text
    assert f"uid_alice holds it as dispatch {taken.pk}" in text
    assert "Its quota of 1 is used up." in text
    assert text.count("09:10") == 2


def test_other_occurrences_of_a_rotation_are_a_click_away(
    alice: Executor, admin_client: Client
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
        ({"executor": "uid_nobody"}, "There is no person or group &#x27;uid_nobody&#x27;."),
        ({"executor": "gid_a"}, "There is no person or group"),
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
    page = page_of(admin_client, alice)
    html = page.content.decode()
    for task in (own, of_group):
        assert f'<option value="{task.source}:{task.pk}"' in html
    assert f'<option value="once:{strange.pk}"' not in html
    address = reverse("admin:dispatch_executor_explain")
    assert f'<form id="why-not" method="get" action="{address}"' in html
    assert "task" not in form_of(page, "title")


def test_page_of_a_task_asks_for_whom(alice: Executor, admin_client: Client) -> None:
    for task in (factories.once_task(alice), factories.rotation(alice)):
        page = page_of(admin_client, task)
        field = f'name="task" value="{task.source}:{task.pk}" form="why-not">'
        assert f'<input type="hidden" {field}' in page.content.decode()
        assert form_of(page, "title")["executor"] == "uid_alice"


def test_others_are_as_unknown_as_none(limited: Any, alice: Executor) -> None:
    olga = limited(alice)
    label = f"once:{factories.once_task(alice).pk}"
    factories.user("uid_bob")
    hidden = factories.once_task(factories.group("gid_a", ["uid_alice"]), "Secret")
    assert "can have it now" in asked(olga, executor="uid_alice", task=label)
    assert "There is no person or group 'uid_bob'." in asked(olga, executor="uid_bob", task=label)
    text = asked(olga, executor="uid_alice", task=f"once:{hidden.pk}")
    assert f"There is no task once:{hidden.pk}" in text
    assert "Secret" not in text
    page = page_of(olga, alice)
    assert f"once:{hidden.pk}" not in page.content.decode()


NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def item(task: int, *, minutes: int = 0, priority: int = 0) -> Item:
    at = NOW + timedelta(minutes=minutes)
    return Item(at, "once", task, NOW, f"Task {task}", priority, 1, None)


def test_repeats_of_a_blocking_task_are_shown_once() -> None:
    before = [item(1), item(1), item(2)]
    assert [run.times for run in runs(before)] == [2, 1]
    for after, shown in (([1, 1, 1, 2], []), ([1, 2, 1], [(None, 1, "added")])):
        rows = [
            (old and old.item.task, new and new.item.task, mark)
            for old, new, mark in compared(runs(before), runs(list(map(item, after))))
        ]
        assert rows == [(1, 1, "changed"), (2, 2, ""), *shown]


def what_ifs(client: Client, url: str, *cases: dict[str, str]) -> Iterator[Any]:
    """The answer to each of these changes of the form there."""
    form = form_of(client.get(url), "title")
    yield from (client.post(url, {**form, "_what_if": "7", **changes}) for changes in cases)


def what_if(client: Client, url: str, **changes: str) -> Any:
    return next(what_ifs(client, url, changes))


def test_edit_is_shown_and_not_saved(alice: Executor, admin_client: Client) -> None:
    """S0.31: the form stays as it was typed, with the answer above it."""
    task = factories.once_task(alice, "First", priority=1)
    factories.once_task(alice, "Second")
    before = checksum()

    answer = what_if(admin_client, change_url(task), title="Last", priority="-1")

    assert answer.status_code == 200
    text = text_of(answer)
    begin = "What if this were saved now? uid_alice: 1 moved, 1 changed."
    assert f"{begin} First: Second (moved), now. Nothing is saved yet." in text
    assert "uid_alice 1 moved, 1 changed Before After" in text
    typed = form_of(answer, "title")
    assert (typed["title"], typed["priority"], typed["executor"]) == ("Last", "-1", "uid_alice")
    assert checksum() == before

    saved = admin_client.post(change_url(task), typed)
    assert saved.status_code == 302
    task.refresh_from_db()
    assert (task.title, task.priority) == ("Last", -1)


def test_new_task_is_shown_and_not_saved(alice: Executor, admin_client: Client) -> None:
    factories.group("gid_a", ["uid_alice", "uid_bob"])
    before = checksum()

    for kind, rule in (("once", {}), ("rotate", {"every_minutes": "30"})):
        url = reverse(f"admin:dispatch_{kind}task_add")
        answer = what_if(admin_client, url, title="Everybody", executor="gid_a", **rule)
        text = text_of(answer)
        for name in ("gid_a", "uid_alice", "uid_bob"):
            assert name in text
        assert "Everybody" in text
        assert form_of(answer, "title")["title"] == "Everybody"
    assert checksum() == before


def test_one_line_says_who_would_get_what_and_when(alice: Executor, admin_client: Client) -> None:
    """The queue of the group has nothing that is not in those of its members."""
    url, begin = reverse("admin:dispatch_oncetask_add"), NOW + timedelta(days=1)
    when = {"repeats": "date", "start_at_0": f"{begin:%Y-%m-%d}", "start_at_1": f"{begin:%H:%M:%S}"}
    for count in (1, 2, 4):
        factories.group(f"gid_of_{count}", [f"uid_{n}" for n in range(1, 1 + count)])
    cases = [{"title": "Shelves", "executor": f"gid_of_{count}", **when} for count in (1, 2, 4)]
    whom = ("uid_1: 1", "uid_1 and 1 more: 2", "uid_1 and 3 more: 4")
    for answer, who in zip(what_ifs(admin_client, url, *cases), whom, strict=True):
        said = f"{who} added. First: Shelves (added), Tue 09:00 ."
        assert said in text_of(answer)


def test_line_is_of_what_the_person_sees_and_in_chinese(alice: Executor, limited: Any) -> None:
    task = factories.once_task(alice, "First")
    factories.group("gid_a", ["uid_alice", "uid_bob"])
    client, url = limited(alice), change_url(task)
    form = {**form_of(client.get(url), "title"), "_what_if": "7", "status": "paused"}
    answer = client.post(url, form, headers={"accept-language": "zh-hans"})
    assert "uid_alice：移除 1 项。最早： First （移除），现在。" in text_of(answer)


def test_long_queues_show_what_changes_with_its_neighbours(
    alice: Executor, admin_client: Client
) -> None:
    made = [factories.once_task(alice, f"Task {n}") for n in range(20)]
    text = text_of(what_if(admin_client, change_url(made[10]), status="paused"))
    assert "uid_alice 1 removed" in text
    assert "… 8 unchanged …" in text
    assert "… 7 unchanged …" in text


def test_what_a_save_would_refuse_is_shown_beside_its_field(
    alice: Executor, admin_client: Client
) -> None:
    task = factories.once_task(alice)
    before = checksum()
    wrong = {"mode": "blocking", "dispatch_times": ""}, {"executor": "uid_nobody"}
    quota, executor = (text_of(page) for page in what_ifs(admin_client, change_url(task), *wrong))
    assert "Leaving dispatch_times empty (every member once) needs mode multi" in quota
    assert "What if this were saved now?" not in quota
    assert "There is no person or group 'uid_nobody'." in executor
    assert checksum() == before


def test_form_of_an_older_version_is_a_conflict(alice: Executor, admin_client: Client) -> None:
    task = factories.once_task(alice)
    form = form_of(admin_client.get(change_url(task)), "title")
    tasks.update_task(task=task, changes={"priority": 5}, actor="admin:bob")
    answer = admin_client.post(change_url(task), {**form, "title": "Mine", "_what_if": "7"})
    assert answer.status_code == 409


def test_period_is_chosen_by_the_button(
    alice: Executor, admin_client: Client, frozen_clock: FrozenClock
) -> None:
    task = factories.once_task(
        alice, start_at=frozen_clock.instant + timedelta(days=9), title="In nine days"
    )
    cases = [{"status": "paused", "_what_if": days} for days in ("7", "30", "nonsense")]
    answers = what_ifs(admin_client, change_url(task), *cases)
    for answer, change in zip(answers, ("no change", "1 removed", "no change"), strict=True):
        assert f"uid_alice {change}" in text_of(answer)


def test_titles_outside_the_scope_are_not_shown(alice: Executor, limited: Any) -> None:
    factories.once_task(factories.group("gid_a", ["uid_alice"]), "Secret")
    task = factories.once_task(alice, "Her own")
    client = limited(alice)

    answer = what_if(client, change_url(task), status="paused")

    assert "Secret" not in answer.content.decode()
    assert "not yours to see" in text_of(answer)
    refused = what_if(client, change_url(task), executor="gid_a")
    assert "There is no person or group 'gid_a'." in text_of(refused)
    assert OnceTask.objects.get(title="Her own").status == "active"
