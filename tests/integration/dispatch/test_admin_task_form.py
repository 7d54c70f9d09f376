"""The one form of tasks: it writes both kinds, says itself back, and copies without a loss."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.dispatch.services import executors
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.api.world import checksum
from tests.pages import change_url, form_of, text_of

pytestmark = pytest.mark.django_db

ONCE, ROTATE = "admin:dispatch_oncetask_add", "admin:dispatch_rotatetask_add"
SAID = "admin:dispatch_oncetask_said_of_new"
WEEKLY = {"repeats": "rule", "every": "week", "weekdays": ["1", "4"], "at": "09:00"}


@pytest.fixture(autouse=True)
def photo_check(db: None, frozen_clock: Any) -> None:
    factories.group("gid_photo", ["uid_ava", "uid_bo", "uid_cy"])


def named(name: str) -> Executor:
    return Executor.objects.get(name=name)


def drawn(client: Client, **typed: Any) -> dict[str, Any]:
    form = form_of(client.get(reverse(ONCE)), "title")
    return {**form, "title": "Shelf", "executor": "gid_photo", "params-raw": "{}", **typed}


def test_what_is_typed_decides_the_kind(admin_client: Client) -> None:
    for address, model in ((ONCE, RotateTask), (ROTATE, RotateTask)):
        answer = admin_client.post(reverse(address), drawn(admin_client, **WEEKLY))
        assert answer.status_code == 302, answer.context["adminform"].form.errors
        assert answer.url == reverse("admin:dispatch_rotatetask_changelist")
        assert model.objects.latest("pk").rule == {"cron": "0 9 * * 1,4"}
    # What the other choices have does not count, even if it is wrong.
    hidden = {"repeats": "now", "start_at_0": "never", "every": "cron", "cron": "x"}
    answer = admin_client.post(reverse(ROTATE), drawn(admin_client, **hidden))
    assert answer.url == reverse("admin:dispatch_oncetask_changelist")
    assert OnceTask.objects.count() == 1


def test_executor_is_picked_by_title(admin_client: Client) -> None:
    executors.update_executor(
        executor=named("uid_ava"), changes={"title": "Ava Lee"}, actor=factories.OPERATOR
    )
    answer = admin_client.post(reverse(ONCE), drawn(admin_client, executor="Ava Lee"))
    assert answer.status_code == 302 and OnceTask.objects.get().executor.name == "uid_ava"
    factories.user("uid_other", title="Ava Lee")
    answer = admin_client.post(reverse(ONCE), drawn(admin_client, executor="Ava Lee"))
    assert "pick one by its name" in str(answer.context["adminform"].form.errors)


def test_addresses_choose_what_is_offered_first(admin_client: Client) -> None:
    chosen = {
        reverse(ONCE): "now",
        reverse(ROTATE): "rule",
        reverse(ONCE) + "?repeats=date": "date",
        reverse(ONCE) + "?repeats=rule": "rule",
    }
    for address, repeats in chosen.items():
        assert form_of(admin_client.get(address), "title")["repeats"] == repeats


def test_form_of_a_stored_rule_writes_nothing_when_untouched(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    ava = factories.user("uid_dee")
    for rule in (
        {"cron": "0 9 * * 1-5"},
        {"cron": "@weekly"},
        {"cron": "0 9 L * *"},
        {"every_days": 2, "at": "09:00:30"},
        {"every_minutes": 90},
    ):
        with subtests.test(rule=rule):
            task = factories.rotation(ava, rule=rule)
            url = change_url(task)
            assert (
                admin_client.post(url, form_of(admin_client.get(url), "title")).status_code == 302
            )
            task.refresh_from_db()
            assert (task.rule, task.version) == (rule, 1)


def test_form_says_itself_back_and_saves_nothing(admin_client: Client) -> None:
    before = checksum()
    typed = {"mode": "multi", "dispatch_times": "2", "lease_seconds": "1 min 30 s", **WEEKLY}
    text = text_of(admin_client.post(reverse(SAID), drawn(admin_client, **typed)))
    sentence = (
        "Every Monday and Thursday at 09:00: 2 of the 3 people of gid_photo , each at most once "
        "– “ Shelf ”; each has 1 min 30 s."
    )
    assert sentence in text
    assert "What if: uid_ava and 2 more: 6 added." in text
    assert "gid_photo · 3 people · 3 could take it now" in text
    assert "Next five Mon 2 Mar 09:00 Thu 5 Mar 09:00" in text
    assert "done within 1 min 30 s" in text
    # While it is not right yet, what is known.
    wrong = {**WEEKLY, "weekdays": [], "title": "", "executor": "gid_nobody"}
    text = text_of(admin_client.post(reverse(SAID), drawn(admin_client, **wrong)))
    assert "Not right yet: " in text and "Title" in text and "Who" in text and "On" in text
    assert checksum() == before
    # Without scripts the page says it after "Check".
    page = admin_client.post(reverse(ONCE), drawn(admin_client, **typed, _draft="check"))
    assert sentence in text_of(page)
    assert not OnceTask.objects.exists() and not JournalEntry.objects.filter(event="task_created")


def test_mode_of_one_person_needs_no_quota(admin_client: Client) -> None:
    task = factories.once_task(named("gid_photo"), mode="multi", dispatch_times=2)
    url = change_url(task)
    form = {**form_of(admin_client.get(url), "title"), "mode": "single"}
    assert admin_client.post(url, form).status_code == 302
    task.refresh_from_db()
    assert (task.mode, task.dispatch_times) == ("single", 1)


def test_statements_do_not_grow_with_rows(admin_client: Client) -> None:
    """Of what is said back; the queues that are compared are bounded by their members."""

    def count() -> int:
        form = drawn(admin_client, mode="multi", dispatch_times="2")
        admin_client.post(reverse(SAID), form)
        with CaptureQueriesContext(connection) as made:
            admin_client.post(reverse(SAID), form)
        return len(made)

    few = count()
    executors.change_members(
        group=named("gid_photo"), add=[f"uid_{n:03}" for n in range(60)], actor=factories.OPERATOR
    )
    for n in range(30):
        factories.once_task(named("uid_000"), f"Task {n}")
    assert count() <= few + 3


def test_nothing_foreign_is_said(admin_client: Client, limited: Any) -> None:
    """An operator of one person learns nothing about the group of others."""
    client = limited(named("uid_ava"))
    text = text_of(client.post(reverse(SAID), drawn(admin_client)))
    assert "people" not in text and "uid_bo" not in text
    task = factories.once_task(named("uid_bo"), "Secret shelf")
    assert client.post(reverse("admin:dispatch_oncetask_said", args=[task.pk])).status_code == 404
    page = client.get(reverse(ONCE) + f"?copy=once:{task.pk}")
    assert "Secret shelf" not in page.content.decode()


def test_task_is_made_to_repeat_without_a_loss(admin_client: Client) -> None:
    """What is stored and secret, and what is typed and not saved."""
    task = factories.once_task(
        named("uid_ava"), "Shelf", params={"shop": "Bund", "password": "hush"}, priority=7
    )
    typed = {**form_of(admin_client.get(change_url(task)), "title"), "title": "Shelf, typed"}
    address = reverse(ROTATE) + f"?copy=once:{task.pk}"
    draft = form_of(admin_client.post(address, {**typed, "_draft": "rule"}), "title")
    assert (draft["title"], draft["repeats"], draft["priority"]) == ("Shelf, typed", "rule", "7")
    assert "hush" not in str(draft)
    answer = admin_client.post(address, {**draft, **WEEKLY, "_save": "Save"})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    made = RotateTask.objects.get()
    assert made.params == {"shop": "Bund", "password": "hush"}
    assert (made.title, made.priority) == ("Shelf, typed", 7)
    task.refresh_from_db()
    assert (task.title, task.version) == ("Shelf", 1)


def test_copy_of_what_one_may_not_see_keeps_it(role_client: Any, admin_client: Client) -> None:
    task = factories.once_task(named("uid_ava"), "Shelf", params={"shop": "Bund"})
    client = role_client("operator")
    address = reverse(ONCE) + f"?copy=once:{task.pk}"
    form = form_of(client.get(address), "title")
    assert client.post(address, {**form, "_save": "Save"}).status_code == 302
    assert OnceTask.objects.latest("pk").params == {"shop": "Bund"}
