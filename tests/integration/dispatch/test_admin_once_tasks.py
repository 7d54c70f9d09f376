"""Once tasks in the admin: S0.2, S0.3, S0.7, S0.32, I52, I55 and I57: planning and editing."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.dispatch.models import OnceTask, Template
from apps.dispatch.services import tasks, templates
from apps.journal.models import JournalEntry
from apps.journal.services.versions import set_status
from tests import factories
from tests.frozen import FrozenClock
from tests.pages import form_of, page_of, text_of

LIST = "/admin/dispatch/oncetask/"
ADD = f"{LIST}add/"


def save(client: Client, task: OnceTask, **changes: Any) -> Any:
    form = {**form_of(page_of(client, task), "title"), **changes, "_save": "Save"}
    return client.post(f"{LIST}{task.pk}/change/", form)


def plan(client: Client, chosen: Template | None = None, **typed: Any) -> Any:
    """The add form with the template chosen, its fields loaded, filled in and sent."""
    return client.post(ADD, {**drawn_form(client, chosen), **typed, "_save": "Save"})


def drawn_form(client: Client, chosen: Template | None) -> dict[str, Any]:
    form = form_of(client.get(ADD), "title")
    form |= {"title": "Check", "executor": "gid_sales", "template": chosen.pk if chosen else ""}
    drawn = client.post(ADD, {**form, "_draft": "1"})
    assert drawn.status_code == 200
    return form_of(drawn, "title")


def errors_of(page: Any) -> dict[str, list[str]]:
    form = page.context["adminform"].form
    params = form.params_form.errors if form.params_form is not None else {}
    return {**form.errors, **params}


# --- planning ---------------------------------------------------------------------------------
def test_task_is_planned_by_a_form_made_from_the_template(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    factories.group()
    template = factories.template()
    answer = plan(admin_client, template, **{"params-value/shop": "S9", "params-value/photos": "2"})
    assert answer.status_code == 302, errors_of(answer)
    task = OnceTask.objects.get()
    assert task.params == {"shop": "S9", "photos": 2}
    assert (task.executor.name, task.template) == ("gid_sales", template)
    assert task.start_at == frozen_clock.instant
    assert (task.mode, task.dispatch_times, task.status) == ("single", 1, "active")
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, entry.actor) == ("task_created", "admin:admin")


def test_choosing_another_template_draws_its_fields_and_saves_nothing(admin_client: Client) -> None:
    factories.group()
    price = factories.template(
        "price", {"type": "object", "properties": {"price": {"type": "number"}}}
    )
    form = form_of(admin_client.get(ADD), "title")
    assert "params-raw" in form
    assert "params-value/price" not in form
    drawn = admin_client.post(ADD, {**form, "title": "Kept", "template": price.pk, "_draft": "1"})
    redrawn = form_of(drawn, "title")
    assert redrawn["title"] == "Kept"
    assert "params-value/price" in redrawn
    assert "required" not in text_of(drawn)
    assert not OnceTask.objects.exists()


def test_params_may_be_written_as_raw_json_beside_the_fields(admin_client: Client) -> None:
    factories.group()
    typed = {"params-uses_raw": "on", "params-raw": '{"shop": "S3"}', "params-value/shop": "no"}
    assert plan(admin_client, factories.template(), **typed).status_code == 302
    assert OnceTask.objects.get().params == {"shop": "S3"}


GOOD = {"params-value/shop": "S1"}


# By the part of the form that they are in: one of each part is sent at once.
WRONG: list[list[tuple[dict[str, str], str, str]]] = [
    [
        ({"title": ""}, "title", "required"),
        ({"title": "x" * 201}, "title", "at most 200"),
        ({"title": "  "}, "title", "required"),
        ({"title": "a\0b"}, "title", "Null characters"),
    ],
    [
        ({"executor": ""}, "executor", "required"),
        ({"executor": "gid_nobody"}, "executor", "There is no person or group 'gid_nobody'"),
        ({"executor": "GID_SALES"}, "executor", "There is no person or group"),
        ({"executor": "x" * 300}, "executor", "at most 255"),
    ],
    [
        ({"template": "999999"}, "template", "valid choice"),
        ({"template": "abc"}, "template", "valid choice"),
        ({"template": "9" * 40}, "template", "valid choice"),
        ({"params-value/shop": ""}, "value/shop", "required"),
        ({"params-value/photos": "x"}, "value/photos", "whole number"),
        ({"params-uses_raw": "on", "params-raw": "{"}, "raw", "not JSON"),
        ({"params-uses_raw": "on", "params-raw": "[]"}, "raw", "JSON object"),
        ({"params-uses_raw": "on", "params-raw": "{}"}, "raw", 'Missing: "shop"'),
        ({"params-uses_raw": "on", "params-raw": '{"shop": "a", "x": 1}'}, "raw", 'Unknown: "x"'),
    ],
    [
        ({"mode": "nope"}, "mode", "valid choice"),
        ({"mode": "blocking", "dispatch_times": ""}, "dispatch_times", "needs mode multi"),
        ({"mode": "multi", "dispatch_times": "0"}, "dispatch_times", "out of range"),
        ({"mode": "multi", "dispatch_times": "-1"}, "dispatch_times", "greater than or equal to 0"),
        ({"mode": "multi", "dispatch_times": "9" * 30}, "dispatch_times", "out of range"),
    ],
    [({"status": "deleted"}, "status", "valid choice")],
    [({"on_failure": ""}, "on_failure", "required")],
    [
        ({"priority": "101"}, "priority", "-100 to 100"),
        ({"priority": "x"}, "priority", "whole number"),
    ],
    [({"lease_seconds": "0"}, "lease_seconds", "1 to 2592000")],
    [({"max_rounds": "0"}, "max_rounds", "1 to 1000")],
    [
        ({"start_at_0": "2026-02-30", "start_at_1": "10:00:00"}, "start_at", "valid date"),
        ({"start_at_0": "2026-03-01"}, "start_at", "valid time"),
        ({"start_at_0": ""}, "start_at", "or choose Now"),
        ({"end_at_0": "2020-01-01", "end_at_1": "00:00"}, "end_at", "ends before it starts"),
    ],
]


def test_every_wrong_value_is_shown_beside_its_field_and_nothing_is_saved(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    group = factories.group()
    form = {
        **drawn_form(admin_client, factories.template()),
        **GOOD,
        "repeats": "date",
        "_save": "Save",
    }
    for given in zip_longest(*WRONG):
        cases = [case for case in given if case]
        sent = {name: value for typed, _, _ in cases for name, value in typed.items()}
        page = admin_client.post(ADD, {**form, **sent})
        assert page.status_code == 200
        errors, shown = errors_of(page), form_of(page, "title")
        for typed, field, message in cases:
            with subtests.test(typed=typed):
                assert message in " ".join(errors[field]), errors
                for name, value in typed.items():
                    if name in shown and name not in {"template", "mode", "status", "on_failure"}:
                        # No browser shows a NUL.
                        assert shown[name] == value.replace("\0", "\ufffd")
    assert not OnceTask.objects.exists()
    assert not JournalEntry.objects.filter(event="task_created").exists()
    group.refresh_from_db()
    assert group.plan_version == 0


def test_times_near_the_ends_of_the_calendar_are_refused(admin_client: Client) -> None:
    """The clocks of some zone could not show them, and no list with them in it."""
    factories.group()
    form = {**drawn_form(admin_client, None), "repeats": "date", "_save": "Save"}
    for zone, start, end in (
        ("Asia/Shanghai", "0001-01-01", "9999-01-02"),
        ("America/New_York", "9999-12-31", "9999-12-31"),
    ):
        for field, day in (("start_at", start), ("end_at", end)):
            typed = {f"{field}_0": day, f"{field}_1": "23:59:59"}
            with timezone.override(zone):
                page = admin_client.post(ADD, {**form, **typed})
            assert "in the years 1970 to 9998" in str(errors_of(page)[field])
    assert not OnceTask.objects.exists()


# --- editing ----------------------------------------------------------------------------------
def test_edit_writes_only_what_was_changed(admin_client: Client) -> None:
    """I55, I57: one entry with before and after of those columns; params stay as they were."""
    template = factories.template()
    task = factories.once_task(
        factories.group(),
        template=template,
        params={"shop": "S1"},
        start_at=datetime(2026, 3, 1, 8, 15, 42, 123456, tzinfo=UTC),
    )
    entries = JournalEntry.objects.count()
    assert save(admin_client, task, title="New", priority="7").status_code == 302
    changed = OnceTask.objects.get()
    assert (changed.title, changed.priority, changed.version) == ("New", 7, 2)
    assert (changed.start_at, changed.params) == (task.start_at, task.params)
    assert JournalEntry.objects.count() == entries + 1
    entry = JournalEntry.objects.latest("id")
    assert entry.data == {
        "before": {"title": "Check the shelf", "priority": 0},
        "after": {"title": "New", "priority": 7},
        "undo": {"version": 2, "was": {}},
    }


def test_form_sent_untouched_writes_nothing(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    task = factories.once_task(
        factories.group(),
        template=factories.template(),
        params={"shop": "two\nlines", "photos": 2},
        end_at=datetime(2027, 1, 1, 0, 0, 1, tzinfo=UTC),
    )
    entries = JournalEntry.objects.count()
    assert save(admin_client, task).status_code == 302
    task.refresh_from_db()
    assert task.version == 1
    assert JournalEntry.objects.count() == entries


def test_task_of_an_hour_that_comes_twice_can_be_edited(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """What was not touched is not read: the text means the first of the two."""
    frozen_clock.move_to(datetime(2026, 10, 25, tzinfo=UTC))
    second_pass = datetime(2026, 10, 25, 1, 30, 15, 123_456, tzinfo=UTC)
    task = factories.once_task(factories.user(), start_at=second_pass)
    with timezone.override("Europe/Berlin"):
        assert save(admin_client, task, title="Other").status_code == 302
        task.refresh_from_db()
        assert (task.title, task.start_at) == ("Other", second_pass)
        assert save(admin_client, task, start_at_1="02:45:00").status_code == 302
    task.refresh_from_db()
    assert task.start_at == datetime(2026, 10, 25, 0, 45, tzinfo=UTC)


def test_stale_form_answers_conflict_with_the_params_too_and_saves_nothing(
    admin_client: Client,
) -> None:
    """I57: stale edit form → conflict page, nothing saved, secrets redacted."""
    schema = {"type": "object", "properties": {"shop": {"type": "string"}, "token": {}}}
    task = factories.once_task(
        factories.group(), template=factories.template(schema=schema), params={"token": "hunter2"}
    )
    form = form_of(page_of(admin_client, task), "title")
    tasks.update_task(task=task, changes={"priority": 5}, actor="admin:vera")
    form |= {"title": "Mine", "params-value/shop": "店7", "_save": "Save"}
    page = admin_client.post(f"{LIST}{task.pk}/change/", form)
    assert page.status_code == 409
    text = text_of(page)
    assert '"shop": "店7"' in text
    assert "hunter2" not in text
    task.refresh_from_db()
    assert (task.title, task.priority, task.version) == ("Check the shelf", 5, 2)
    assert task.params == {"token": "hunter2"}


def test_draft_of_a_stored_task_takes_over_what_the_new_version_has_too(
    admin_client: Client,
) -> None:
    first = factories.template()
    task = factories.once_task(
        factories.group(), template=first, params={"shop": "S1", "photos": 2}
    )
    properties = {"shop": {"type": "string"}, "floor": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    second = templates.put_template(name=first.name, schema=schema, actor="admin:vera")
    form = form_of(page_of(admin_client, task), "title")
    url = f"{LIST}{task.pk}/change/"
    drawn = form_of(admin_client.post(url, {**form, "template": second.pk, "_draft": "1"}), "title")
    assert drawn["params-value/shop"] == "S1"
    assert "params-value/photos" not in drawn
    answer = admin_client.post(url, {**drawn, "params-value/floor": "3", "_save": "Save"})
    assert answer.status_code == 302, errors_of(answer)
    task.refresh_from_db()
    assert task.template == second
    assert task.params == {"shop": "S1", "floor": 3}


def test_retired_template_of_a_task_stays_chosen_and_the_task_editable(
    admin_client: Client,
) -> None:
    template = factories.template()
    task = factories.once_task(factories.group(), template=template, params={"shop": "S1"})
    set_status(template, "retired", actor="admin:vera")
    assert save(admin_client, task, title="New").status_code == 302
    task.refresh_from_db()
    assert (task.title, task.template) == ("New", template)


def test_deleted_task_is_shown_and_cannot_be_edited(admin_client: Client) -> None:
    task = factories.once_task(factories.group())
    tasks.delete_task(task=task, actor="admin:vera")
    page = page_of(admin_client, task)
    assert page.status_code == 200
    assert 'name="title"' not in page.content.decode()
    answer = admin_client.post(f"{LIST}{task.pk}/change/", {"title": "x", "version": "2"})
    assert answer.status_code == 403
