"""What operators do to many tasks at once in the admin: S0.32, I55, I58."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from apps.dispatch.models import OnceTask, RotateTask
from apps.jobs.models import JobType
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import job_type
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

ONCE = "/admin/dispatch/oncetask/"
ROTATE = "/admin/dispatch/rotatetask/"


def ask(client: Client, name: str, *tasks: Any, address: str = ONCE) -> Any:
    return client.get(f"{address}act/{name}/", {"ids": ",".join(str(task.pk) for task in tasks)})


def send(client: Client, name: str, *tasks: Any, address: str = ONCE, **typed: str) -> Any:
    form = form_of(ask(client, name, *tasks, address=address), "ids")
    data = {**form, "reason": "Storm", **typed}
    return client.post(f"{address}act/{name}/", data, follow=True)


# --- shift ----------------------------------------------------------------------------------------
def test_chosen_tasks_are_shifted_from_the_list(
    role_client: Any, frozen_clock: FrozenClock
) -> None:
    alice = factories.user()
    first, second, other = (factories.once_task(alice, title=f"Task {n}") for n in range(3))
    operator = role_client("operator")
    chosen = {"action": "shift", "_selected_action": [first.pk, second.pk]}
    asked = operator.post(ONCE, chosen)
    assert "This concerns 2 once tasks: Task 0 · uid_alice Task 1 · uid_alice" in text_of(asked)

    form = {**form_of(asked, "ids"), "by": "+2h", "reason": "Storm"}
    answer = operator.post(f"{ONCE}act/shift/", form, follow=True)

    assert "Shift: 2 rows done." in text_of(answer)
    starts = dict(OnceTask.objects.values_list("pk", "start_at"))
    later = frozen_clock.instant + timedelta(hours=2)
    assert starts == {first.pk: later, second.pk: later, other.pk: frozen_clock.instant}
    entry = JournalEntry.objects.latest("id")
    assert (entry.actor, entry.reason) == ("admin:operator", "Storm")


def test_page_of_an_act_begins_at_what_must_be_said(admin_client: Client) -> None:
    job_type("mail")
    task = factories.once_task(factories.user())
    type_ = JobType.objects.get()

    # How long a pause lasts can be left empty, by how much a task is shifted cannot.
    paused = admin_client.get("/admin/jobs/jobtype/act/pause/", {"ids": str(type_.pk)})
    assert focused(paused) == ["reason"]
    assert focused(ask(admin_client, "shift", task)) == ["by"]


def focused(response: Any) -> list[str]:
    form = response.context["form"]
    return [each.name for each in form if "autofocus" in each.field.widget.attrs]


def test_form_that_is_sent_twice_shifts_once(admin_client: Client) -> None:
    task = factories.once_task(factories.user())
    form = {**form_of(ask(admin_client, "shift", task), "ids"), "by": "1h", "reason": "x"}
    for message in ("1 row done.", "This was sent twice, and is done once."):
        assert message in text_of(admin_client.post(f"{ONCE}act/shift/", form, follow=True))
    assert OnceTask.objects.get().start_at == task.start_at + timedelta(hours=1)
    assert "1 row done." in text_of(send(admin_client, "shift", task, by="1h"))


def test_what_is_no_shift_is_shown_beside_the_field_and_what_was_typed_is_kept(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    task = factories.once_task(factories.user())
    form = {**form_of(ask(admin_client, "shift", task), "ids"), "reason": "Storm"}
    for by, wanted in (
        ("", "This field is required."),
        ("soon", "is not a shift; write for example +2h"),
        ("1h'\"><script>", "is not a shift; write for example +2h"),
        ("0h", "is out of range; shift by one second to 366 days"),
        ("+367d", "is out of range; shift by one second to 366 days"),
    ):
        with subtests.test(by=by):
            page = admin_client.post(f"{ONCE}act/shift/", {**form, "by": by})
            assert wanted in text_of(page)
            kept = form_of(page, "ids")
            assert (kept["by"], kept["reason"]) == (by, "Storm")
            assert OnceTask.objects.get().version == 1


def test_shift_of_a_rotation_says_what_it_means(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """I23, and that a rule by the clock is not moved by its start."""
    alice = factories.user()
    often = factories.rotation(alice, "Often")
    daily = factories.rotation(alice, "Daily", rule={"cron": "0 9 * * *"})
    frozen_clock.advance(days=2)
    asked = text_of(ask(admin_client, "shift", often, daily, address=ROTATE))
    assert "A time of day and cron stay as they are" in asked
    assert "Editing the start never creates occurrences in the past" in asked

    page = send(admin_client, "shift", often, daily, address=ROTATE, by="-10m")

    assert "1 row done. 1 row skipped." in text_of(page)
    assert "Daily · uid_alice It would be due at the same times as before" in text_of(page)
    often.refresh_from_db()
    assert often.effective_from == frozen_clock.instant


def test_whole_list_is_taken_as_far_as_its_filters_go(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S0.32: beyond the page, and no further than the period, the executor and what may be seen."""
    alice, bob = factories.user(), factories.user("uid_bob")
    for n in range(60):
        factories.once_task(alice, f"Task {n}")
    factories.once_task(bob, "Other")
    factories.once_task(alice, "Long ago", start_at=frozen_clock.instant - timedelta(days=30))
    page = admin_client.get(ONCE)
    assert "Select the whole list" in text_of(page)
    some = page.context["cl"].result_list[0].pk
    chosen = {"action": "pause", "select_across": "1", "_selected_action": [some]}

    asked = admin_client.post(f"{ONCE}?executor=uid_alice", chosen)

    assert "This concerns 60 once tasks" in text_of(asked)
    data = {**form_of(asked, "ids"), "reason": "x"}
    page = admin_client.post(f"{ONCE}act/pause/", data, follow=True)
    assert "Pause: 60 rows done." in text_of(page)
    left = OnceTask.objects.filter(status="active").values_list("title", flat=True)
    assert sorted(left) == ["Long ago", "Other"]


def test_whole_list_of_more_than_a_thousand_is_refused(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.common.admin import actions

    monkeypatch.setattr(actions, "MAX_ROWS", 3)
    tasks = [factories.once_task(factories.user(f"uid_{n}")) for n in range(4)]
    chosen = {"action": "pause", "select_across": "1", "_selected_action": [tasks[0].pk]}
    page = admin_client.post(ONCE, chosen, follow=True)
    assert "At most 3 rows at once; narrow the list by its filters first." in text_of(page)


# --- copy -----------------------------------------------------------------------------------------
def test_tasks_are_copied_to_several_executors(role_client: Any) -> None:
    alice, _bob, _sales = factories.user(), factories.user("uid_bob"), factories.group()
    first, second = factories.once_task(alice, "One"), factories.once_task(alice, "Two")

    page = send(
        role_client("operator"), "copy", first, second, executors="uid_bob, gid_sales uid_alice"
    )

    assert "4 rows done. 2 rows skipped." in text_of(page)
    assert "One · uid_alice → uid_alice It is addressed to uid_alice already." in text_of(page)
    made = OnceTask.objects.exclude(executor=alice).values_list("title", "executor__name")
    assert sorted(made) == [
        ("One", "gid_sales"),
        ("One", "uid_bob"),
        ("Two", "gid_sales"),
        ("Two", "uid_bob"),
    ]


def test_unknown_executor_is_shown_beside_the_field(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    task = factories.once_task(factories.user())
    factories.user("uid_bob")
    form = {**form_of(ask(admin_client, "copy", task), "ids"), "reason": "Storm"}
    for names, message in (
        ("", "This field is required."),
        ("uid_nobody", "There is no person or group 'uid_nobody'."),
        ("uid_bob uid_x,uid_y", "There is no person or group 'uid_x', 'uid_y'."),
        ("UID_BOB", "There is no person or group 'UID_BOB'."),
        (" ".join(f"uid_{n}" for n in range(101)), "At most 100 names at once."),
    ):
        with subtests.test(message=message):
            page = admin_client.post(f"{ONCE}act/copy/", {**form, "executors": names})
            assert message in text_of(page)
            assert OnceTask.objects.count() == 1


def test_more_copies_than_may_be_at_once_are_refused_above_the_form(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.dispatch.services import bulk

    monkeypatch.setattr(bulk, "MAX_COPIES", 1)
    alice = factories.user()
    factories.user("uid_bob")
    both = [factories.once_task(alice), factories.once_task(alice)]
    page = send(admin_client, "copy", *both, executors="uid_bob")
    assert "At most 1 copies at once; choose fewer." in text_of(page)
    assert form_of(page, "ids")["executors"] == "uid_bob"


# --- roles and limits -----------------------------------------------------------------------------
def test_operator_with_limits_copies_only_what_and_to_whom_may_be_seen(limited: Any) -> None:
    mine = factories.group("gid_mine", members=["uid_me"])
    factories.group("gid_other")
    other = factories.once_task(factories.member("uid_me"), "Seen")
    hidden = factories.once_task(factories.user("uid_far"), "Hidden")
    operator = limited(mine)

    page = send(operator, "copy", other, hidden, executors="gid_mine")
    assert "1 row done. 1 row skipped." in text_of(page)
    assert f"{hidden.pk} There is no such row." in text_of(page)
    assert "Hidden" not in page.content.decode()
    assert list(OnceTask.objects.filter(executor=mine).values_list("title", flat=True)) == ["Seen"]

    page = send(operator, "copy", other, executors="gid_other")
    assert "There is no person or group 'gid_other'." in text_of(page)


def test_each_action_needs_its_own_permission(
    role_client: Any, role_user: Any, subtests: pytest.Subtests
) -> None:
    task = factories.rotation(factories.user())
    viewer, typed = role_client("viewer"), {"ids": task.pk, "reason": "x", "by": "1h"}
    for name, needed in (
        ("pause", "change_rotatetask"),
        ("resume", "change_rotatetask"),
        ("shift", "change_rotatetask"),
        ("copy", "add_rotatetask"),
        ("delete_task", "delete_rotatetask"),
    ):
        with subtests.test(name=name):
            role_user("viewer").user_permissions.clear()
            assert ask(viewer, name, task, address=ROTATE).status_code == 403
            assert viewer.post(f"{ROTATE}act/{name}/", typed).status_code == 403
            assert RotateTask.objects.get().version == 1
            role_user("viewer").user_permissions.add(Permission.objects.get(codename=needed))
            assert ask(viewer, name, task, address=ROTATE).status_code == 200


@pytest.mark.both
def test_deleted_task_offers_no_action_and_refuses_all(admin_client: Client) -> None:
    task = factories.once_task(factories.user())
    factories.user("uid_bob")
    send(admin_client, "delete_task", task)
    page = admin_client.get(f"{ONCE}{task.pk}/change/")
    assert page.context["object_buttons"] == []
    for name, typed in (("pause", {}), ("shift", {"by": "1h"}), ("copy", {"executors": "uid_bob"})):
        assert "is deleted" in text_of(send(admin_client, name, task, **typed))
