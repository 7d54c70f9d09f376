"""Imports of tasks that are refused, in whole or never twice: S0.23, S0.32."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.dispatch.services import tasks
from tests import factories
from tests.integration.dispatch.test_admin_task_csv import (
    ONCE,
    ROTATE,
    as_csv,
    everything,
    export,
    refusals,
    try_it,
)
from tests.pages import form_of, text_of
from tests.statements import locking

pytestmark = pytest.mark.django_db


# --- what is wrong --------------------------------------------------------------------------------
WRONG: list[tuple[dict[str, str], str]] = [
    ({"id": "999"}, "There is no once task '999'; leave the cell empty for a new one."),
    ({"id": "abc"}, "There is no once task 'abc'; leave the cell empty for a new one."),
    ({"title": ""}, "A new task needs a cell in the column title."),
    ({"executor": ""}, "A new task needs a cell in the column executor."),
    ({"executor": "uid_nobody"}, "There is no person or group 'uid_nobody'."),
    ({"start_at": "soon"}, "soon is not a time; write for example 2026-03-31T09:30:00Z."),
    ({"start_at": "9999-12-31T23:59:59Z"}, "1970 to 9998"),
    ({"end_at": "2001-01-01"}, "The task ends before it starts;"),
    ({"mode": "many"}, "'many' is no mode; choose one of single, multi, blocking."),
    ({"status": "deleted"}, "A new task is active or paused."),
    ({"dispatch_times": "1.5"}, "'1.5' is not a whole number."),
    ({"on_failure": "panic"}, "choose one of finish, give_back, retry_same."),
    ({"dispatch_times": "none"}, "Leaving dispatch_times empty (every member once) needs mode"),
    ({"priority": "101"}, "101 is out of range: priority is -100 to 100."),
    ({"template": "nope"}, "There is no template 'nope'"),
    ({"template": "shelf v7"}, "There is no template 'shelf v7'."),
    ({"template": "shelf", "params": '{"photos": "x"}'}, 'Missing: "shop"'),
    ({"params": "{"}, "The text is not JSON"),
    ({"params": "[1]"}, "Write a JSON object"),
    ({"params": '{"token": "••••••"}'}, "stands for a secret only at the place where it was shown"),
    ({"title": "x" * 201}, "A title has 1 to 200 characters."),
]


def test_every_wrong_row_is_shown_with_its_reason_and_none_is_imported(
    admin_client: Client,
) -> None:
    factories.user()
    factories.template("shelf")
    good = dict.fromkeys(
        ("id", "start_at", "end_at", "mode", "status", "dispatch_times", "priority"), ""
    )
    good |= {"title": "Good", "executor": "uid_alice", "template": "", "on_failure": ""}
    good |= {"params": ""}
    text = as_csv(good, *({**good, **wrong} for wrong, _message in WRONG), good)
    before = everything()
    for sent in ({"text": text}, {"text": text, "confirmed": "yes"}):
        page = admin_client.post(f"{ONCE}import/", sent)
        assert f"{len(WRONG)} rows cannot be imported, so nothing was changed." in text_of(page)
        refused = refusals(page)
        assert [line for line, _name, _why in refused] == list(range(3, 3 + len(WRONG)))
        for (wrong, message), (_line, _name, why) in zip(WRONG, refused, strict=True):
            assert message in why, wrong
        assert everything() == before


WRONG_RULES: list[tuple[dict[str, str], str]] = [
    ({}, "A rule is needed: every_minutes, every_days with at, or cron."),
    ({"every_minutes": "5", "cron": "* * * * *"}, "name exactly one"),
    ({"every_minutes": "x"}, "'x' is not a whole number."),
    ({"every_minutes": "0"}, "0 is not a whole number from 1"),
    ({"every_days": "1", "at": "25:00"}, "'25:00' is not a time of day"),
    ({"cron": "61 * * * *"}, "61"),
    ({"every_minutes": "5", "time_zone": "Mars/Olympus"}, "Mars/Olympus"),
    ({"every_minutes": "5", "misfire": "never"}, "'never' is no misfire"),
]


def test_wrong_rule_is_shown(admin_client: Client) -> None:
    factories.user()
    empty = dict.fromkeys(name for parts, _message in WRONG_RULES for name in parts) | {
        "title": "T",
        "executor": "uid_alice",
    }
    rows = [{**empty, **parts} for parts, _message in WRONG_RULES]
    refused = refusals(try_it(admin_client, as_csv(*rows), ROTATE))
    assert [(line, name) for line, name, _why in refused] == [(n, "T") for n in range(2, 10)]
    for (parts, message), (_line, _name, why) in zip(WRONG_RULES, refused, strict=True):
        assert message in why, parts


def test_row_shows_all_its_mistakes_at_once(admin_client: Client) -> None:
    """Of cells that cannot be read, of rules that they break, and of params that do not fit."""
    factories.user()
    factories.template("shelf")
    row: dict[str, Any] = {
        **{"title": "", "executor": "uid_nobody", "start_at": "soon", "mode": "many"},
        **{"status": "deleted", "priority": "900", "lease_seconds": "1.5", "on_failure": "panic"},
        **{"template": "shelf", "params": "{}"},
    }
    rotation = {**row, "cron": "61 * * * *", "time_zone": "Mars/Olympus", "misfire_limit": "0"}
    edited = {
        **{"id": factories.rotation(factories.user("uid_bob")).pk, "version": "one"},
        **{"title": "x" * 201, "executor": "uid_nobody", "every_minutes": "often"},
        "dispatch_times": "2",
    }

    for address, sent, more in (
        (ONCE, row, set()),
        (ROTATE, rotation, {"rule.cron"}),
        (ROTATE, edited, {"rule.every_minutes"}),
    ):
        ((_line, _name, why),) = refusals(try_it(admin_client, as_csv(sent), address))
        wrong = {line.split(": ")[0].replace("params.shop", "params") for line in why.splitlines()}
        assert wrong == sent.keys() - {"id", "template", "cron", "every_minutes"} | more


def test_rotation_beyond_the_limit_is_refused(admin_client: Client, settings: Any) -> None:
    """S0.23: the rows of one file count, too."""
    settings.ROTATIONS_PER_EXECUTOR = 2
    factories.user()
    row = {"title": "T", "executor": "uid_alice", "every_minutes": "5"}
    of_once_tasks = try_it(admin_client, as_csv(row))
    assert "There is no column 'every_minutes'; the first line names id," in text_of(of_once_tasks)
    page = try_it(admin_client, as_csv(row, row, row), ROTATE)
    ((line, _name, why),) = refusals(page)
    assert line == 4
    assert "uid_alice has 2 active repeating tasks" in why


def test_task_in_two_rows_or_deleted_is_refused(alice: Executor, admin_client: Client) -> None:
    task, gone = factories.once_task(alice), factories.once_task(alice)
    tasks.delete_task(task=gone, actor="admin:vera")
    rows = [{"id": pk, "title": "New"} for pk in (task.pk, task.pk, gone.pk)]
    messages = [why for _line, _name, why in refusals(try_it(admin_client, as_csv(*rows)))]
    assert messages == [
        "id: An earlier row is about the same task.",
        f"Task {gone.pk} is deleted; plan a new one.",
    ]


# --- roles and limits -----------------------------------------------------------------------------
def test_operator_with_limits_exports_and_imports_within_them(limited: Any) -> None:
    mine = factories.group("gid_mine")
    seen = factories.once_task(mine, "Seen")
    hidden = factories.once_task(factories.group("gid_other"), "Hidden")
    operator = limited(mine)
    assert [row["title"] for row in export(operator)] == ["Seen"]
    rows = [
        {"id": hidden.pk, "title": "Taken", "executor": ""},
        {"id": seen.pk, "title": "", "executor": "gid_other"},
        {"id": "", "title": "New", "executor": "gid_other"},
    ]
    messages = [why for _line, _name, why in refusals(try_it(operator, as_csv(*rows)))]
    assert messages == [
        f"id: There is no once task '{hidden.pk}'; leave the cell empty for a new one.",
        "executor: There is no person or group 'gid_other'.",
        "executor: There is no person or group 'gid_other'.",
    ]


def test_who_sees_no_params_neither_overwrites_nor_learns_them(role_client: Any) -> None:
    template = factories.template("shelf", {"type": "object"})
    task = factories.once_task(factories.user(), template=template, params={"shop": "Main St"})
    factories.template("numbers", {"type": "object", "properties": {"shop": {"type": "integer"}}})
    operator = role_client("blind")
    rows = [{"id": task.pk, "template": "", "params": "{}"}]
    ((_line, _name, why),) = refusals(try_it(operator, as_csv(*rows)))
    assert why == "params: You may not see the params of this task; leave the cell empty."
    page = try_it(operator, as_csv({"id": task.pk, "template": "numbers"}))
    ((_line, _name, why),) = refusals(page)
    assert (
        why == "template: The stored params do not fit this template; ask somebody who sees them."
    )
    assert "Main St" not in page.content.decode()


def test_trial_reads_all_tasks_at_once_and_locks_nothing(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    alice = factories.user()
    for n in range(50):
        factories.once_task(alice, title=f"Task {n}")
    rows = export(admin_client)
    with django_assert_max_num_queries(20):
        assert "50 unchanged" in text_of(try_it(admin_client, as_csv(*rows)))
    changed = [{**row, "title": f"{row['title']}!"} for row in rows]
    new = [{**row, "id": "", "version": ""} for row in rows]
    text = as_csv(*changed, *new)
    with CaptureQueriesContext(connection) as queries:
        assert "50 new, 50 changed" in text_of(try_it(admin_client, text))
    assert locking(query["sql"] for query in queries) == []


# --- lost locks -----------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_import_that_loses_a_lock_is_run_again_as_a_whole(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.user()
    row = {"title": "T", "executor": "uid_alice"}
    form = form_of(try_it(admin_client, as_csv(row, row, row)), "confirmed")
    calls: list[int] = []
    add = tasks.add

    def add_or_lose(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            lost: Any = (1213, "Deadlock found") if connection.vendor == "mysql" else None
            raise OperationalError(*(lost or ("database is locked",)))
        return add(*args, **kwargs)

    monkeypatch.setattr(tasks, "add", add_or_lose)
    page = admin_client.post(f"{ONCE}import/", form, follow=True)

    assert "Imported: 3 new" in text_of(page)
    assert (OnceTask.objects.count(), len(calls)) == (3, 5)


@pytest.mark.mariadb
def test_form_that_is_sent_twice_at_once_imports_once(racers: Any, admin_client: Client) -> None:
    factories.user()
    text = as_csv({"title": "T", "executor": "uid_alice"})
    form = form_of(try_it(admin_client, text), "confirmed")
    race = racers([lambda: admin_client.post(f"{ONCE}import/", form)] * 4)
    assert sorted(answer.status_code for answer in race.results) == [200, 200, 200, 302]
    assert OnceTask.objects.count() == 1


@pytest.mark.mariadb
def test_imports_that_meet_at_the_limit_do_not_pass_it_together(
    racers: Any, admin_client: Client, settings: Any
) -> None:
    """S0.23: and those whose rows cross do not lock each other out."""
    settings.ROTATIONS_PER_EXECUTOR = 5
    names = [f"uid_{n}" for n in range(4)]
    for name in names:
        factories.user(name)
    rows = [{"title": "T", "executor": name, "every_minutes": "5"} for name in names] * 3
    files = [as_csv(*rows), as_csv(*reversed(rows))]
    sent = [{"text": text, "confirmed": "yes"} for text in files for _ in range(2)]

    race = racers([lambda form=form: admin_client.post(f"{ROTATE}import/", form) for form in sent])

    assert sorted(answer.status_code for answer in race.results) == [200, 200, 200, 302]
    assert RotateTask.objects.count() == 12
    refused = next(answer for answer in race.results if answer.status_code == 200)
    assert "has 5 active repeating tasks" in str(refusals(refused))
