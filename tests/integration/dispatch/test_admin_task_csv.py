"""Tasks as CSV: S0.31, S0.32: a trial run first, all rows or none, by the services, no formulas."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.test import Client

from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.pages import csv_of, form_of, text_of

pytestmark = pytest.mark.django_db

ONCE = "/admin/dispatch/oncetask/"
ROTATE = "/admin/dispatch/rotatetask/"


def export(client: Client, address: str = ONCE, query: str = "") -> list[dict[str, str]]:
    return csv_of(client.get(f"{address}export/{query}"))


def as_csv(*rows: dict[str, Any]) -> str:
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue()


def try_it(client: Client, text: str, address: str = ONCE) -> Any:
    return client.post(f"{address}import/", {"text": text})


def import_it(client: Client, text: str, address: str = ONCE) -> Any:
    """The trial run, and what its button sends."""
    return client.post(
        f"{address}import/", form_of(try_it(client, text, address), "confirmed"), follow=True
    )


def refusals(page: Any) -> list[tuple[int, str, str]]:
    """Line, name, and all that is wrong with the row, a line each."""
    return [(row.line, row.name, "\n".join(row.errors)) for row in page.context["refused"]]


def everything() -> list[Any]:
    rows: list[Any] = []
    for model in (OnceTask, RotateTask, Executor, JournalEntry):
        rows += model.objects.order_by("pk").values()  # type: ignore[attr-defined]
    return rows


# --- new tasks ------------------------------------------------------------------------------------
def test_new_tasks_are_tried_first_and_then_planned_by_the_services(
    role_client: Any, frozen_clock: FrozenClock
) -> None:
    """S0.32: the trial changes nothing; the import raises each plan version once."""
    factories.user()
    factories.group()
    factories.template("shelf")
    empty = dict.fromkeys(("start_at", "mode", "dispatch_times", "template", "params"), "")
    text = as_csv(
        {
            **{"title": "Shelf 4", "executor": "uid_alice", **empty, "template": "shelf"},
            **{"start_at": "2026-03-05T08:00:00+08:00", "params": '{"shop": "S4"}'},
        },
        {
            **{"title": "Fire drill", "executor": "gid_sales", **empty},
            **{"mode": "multi", "dispatch_times": "none"},
        },
    )
    operator = role_client("operator")
    before = everything()
    assert "2 new, 0 changed, 0 unchanged. Nothing is changed yet." in text_of(
        try_it(operator, text)
    )
    assert everything() == before

    page = import_it(operator, text)

    assert "Imported: 2 new, 0 changed, 0 unchanged." in text_of(page)
    first, second = OnceTask.objects.order_by("pk")
    assert (first.title, first.params) == ("Shelf 4", {"shop": "S4"})
    assert str(first.template) == "shelf v1"
    assert first.start_at == datetime(2026, 3, 5, tzinfo=UTC)
    assert (second.mode, second.dispatch_times) == ("multi", None)
    assert second.start_at == frozen_clock.instant
    assert {*Executor.objects.values_list("plan_version", flat=True)} == {1}
    made = JournalEntry.objects.filter(event="task_created", actor="admin:operator")
    assert {entry.subject_id for entry in made} == {first.pk, second.pk}


def test_new_rotations_are_planned_by_the_parts_of_their_rules(admin_client: Client) -> None:
    factories.user()
    parts = {"title": "T", "executor": "uid_alice", "every_minutes": "", "every_days": ""}
    parts |= {"at": "", "cron": "", "time_zone": "Asia/Shanghai", "misfire": "once"}
    text = as_csv(
        {**parts, "every_minutes": "15"},
        {**parts, "every_days": "2", "at": "09:30"},
        {**parts, "cron": "*/5 9-17 * * 1-5"},
    )
    import_it(admin_client, text, ROTATE)
    rules = [task.rule for task in RotateTask.objects.order_by("pk")]
    assert rules == [
        {"every_minutes": 15},
        {"every_days": 2, "at": "09:30"},
        {"cron": "*/5 9-17 * * 1-5"},
    ]
    assert set(RotateTask.objects.values_list("misfire", "time_zone")) == {
        ("once", "Asia/Shanghai")
    }


def test_form_that_is_sent_twice_imports_once(admin_client: Client) -> None:
    """New tasks would be there twice; the same file can be tried and imported anew."""
    factories.user()
    text = as_csv({"title": "T", "executor": "uid_alice"})
    form = form_of(try_it(admin_client, text), "confirmed")
    assert admin_client.post(f"{ONCE}import/", form).status_code == 302
    imported = JournalEntry.objects.get(event="tasks_imported")
    assert (imported.actor, imported.data) == ("admin:admin", {"rows": 1})

    again = admin_client.post(f"{ONCE}import/", form)

    assert "This form was sent before, and what it makes is there already." in text_of(again)
    assert OnceTask.objects.count() == 1
    import_it(admin_client, text)
    assert OnceTask.objects.count() == 2
    forged = {**form, "once": "123:abc"}
    assert admin_client.post(f"{ONCE}import/", forged).status_code == 302


# --- out and in again -----------------------------------------------------------------------------
@pytest.fixture
def odd_tasks(frozen_clock: FrozenClock) -> None:
    """Tasks whose cells a spreadsheet, a browser or a careless reader would change."""
    alice = factories.user()
    odd = frozen_clock.instant + timedelta(microseconds=123_456)
    template = factories.template("shelf", {"type": "object"})
    titles = ["=1+2", "  padded ", "two\nlines", "a\r\nb", '"quoted", comma', "'=x", "－5", "none"]
    for title in titles:
        for make in (factories.once_task, factories.rotation):
            make(alice, title, start_at=odd, end_at=odd + timedelta(days=1), priority=-5)
    params = {"n": 1.0, "t": True, "deep": [{"api_key": "s3cret"}], "text": "=x\n\u2028 ' \\"}
    fields: dict[str, Any] = {"mode": "multi", "dispatch_times": None, "params": params}
    factories.once_task(alice, template=template, **fields)
    for rule in ({"cron": " 0 9 * * * "}, {"every_days": 2, "at": "09:30:15"}):
        factories.rotation(alice, rule=rule, misfire="all", misfire_limit=3, **fields)
    factories.once_task(alice, "Resting", status="paused")


@pytest.mark.usefixtures("odd_tasks")
def test_what_is_exported_and_imported_again_changes_nothing(
    role_client: Any, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    for role, address in product(("blind", "operator"), (ONCE, ROTATE)):
        with subtests.test(role=role, address=address):
            client = role_client(role)
            text = client.get(f"{address}export/").content.decode()
            before = everything()
            frozen_clock.advance(hours=1)

            page = import_it(client, text, address)

            assert "Imported: 0 new, 0 changed, 10 unchanged." in text_of(page)
            assert everything() == before


@pytest.mark.usefixtures("odd_tasks")
def test_what_is_exported_makes_the_same_tasks_elsewhere(admin_client: Client) -> None:
    """Without its id and version a row is a new task, which lacks nothing but its secrets."""
    for address in (ONCE, ROTATE):
        exported = export(admin_client, address)
        assert "s3cret" not in str(exported)
        assert "••••••" in str(exported)
        cells = [cell for row in exported for cell in row.values()]
        assert not [cell for cell in cells if cell[:1] in "=+@－" and cell]
        assert {row["priority"] for row in exported} == {"-5", "0"}
        rows = [
            {**row, "id": "", "version": "", "params": row["params"].replace("••••••", "another")}
            for row in exported
        ]
        import_it(admin_client, as_csv(*rows), address)

        after = export(admin_client, address)

        # The newest first. Titles lose the blanks and line ends that no cell keeps.
        made, kept = after[: len(rows)][::-1], after[len(rows) :]
        assert len(kept) == len(rows)
        for one, other in zip(made, kept, strict=True):
            for name in {*one} - {"id", "version", "title"}:
                assert one[name].strip() == other[name].strip(), name


def test_params_are_exported_to_those_who_may_see_them(role_client: Any) -> None:
    factories.once_task(factories.user(), params={"shop": "S9"})
    assert "params" not in export(role_client("blind"))[0]
    assert export(role_client("operator"))[0]["params"] == '{"shop": "S9"}'


def test_export_follows_the_filters_of_the_list(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    alice, bob = factories.user(), factories.user("uid_bob")
    factories.once_task(alice, "Mine")
    factories.once_task(alice, "Long ago", start_at=frozen_clock.instant - timedelta(days=60))
    factories.once_task(bob, "Other")
    found = export(admin_client, query="?executor=uid_alice")
    assert [row["title"] for row in found] == ["Mine"]
    found = export(admin_client, query="?from_day=2026-01-01&to_day=2026-01-31")
    assert [row["title"] for row in found] == ["Long ago"]


def test_export_reads_in_chunks_and_says_when_it_is_too_much(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    from apps.common.admin import csv_pages, csv_text

    alice = factories.user()
    for n in range(12):
        factories.once_task(alice, title=f"Task {n}", template=None)
    monkeypatch.setattr(csv_pages, "CHUNK", 5)
    with django_assert_max_num_queries(15):
        assert [row["title"] for row in export(admin_client)] == [
            f"Task {n}" for n in reversed(range(12))
        ]
    for module, name, limit in (
        (csv_pages, "MAX_EXPORTED", 11),
        (csv_pages, "MAX_EXPORTED_BYTES", 500),
        (csv_text, "MAX_SECONDS", -1.0),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, limit)
            page = admin_client.get(f"{ONCE}export/?mode=single&q=Task", follow=True)
            assert "narrow the list first" in text_of(page)
            # As it was narrowed so far.
            assert page.request["QUERY_STRING"] == "mode=single&q=Task"


# --- edits ----------------------------------------------------------------------------------------
@pytest.mark.both
def test_changed_cells_are_the_only_ones_written(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """I57: the plan versions of both executors rise; a stale file overwrites nothing."""
    alice, bob = factories.user(), factories.user("uid_bob")
    task = factories.once_task(alice, "Shelf", priority=3, params={"api_key": "k", "n": 1})
    other = factories.once_task(alice, "Other")
    first, second = sorted(export(admin_client), key=lambda row: int(row["id"]))
    first |= {"executor": "uid_bob", "params": first["params"].replace('"n": 1', '"n": 2')}

    text = as_csv(first, second)
    import_it(admin_client, text)
    ((_line, _name, stale),) = refusals(try_it(admin_client, as_csv({**first, "title": "New"})))
    assert stale.startswith("It was changed by admin:admin since you read it (version 1, now 2)")

    task.refresh_from_db()
    assert (task.executor, task.params) == (bob, {"api_key": "k", "n": 2})
    assert (task.title, task.priority, task.version) == ("Shelf", 3, 2)
    entry = JournalEntry.objects.latest("id")
    assert (entry.event, set(entry.data["after"])) == ("task_changed", {"executor", "params"})
    other.refresh_from_db()
    assert other.version == 1
    versions = dict(Executor.objects.values_list("name", "plan_version"))
    assert versions == {"uid_alice": 3, "uid_bob": 1}


def test_trial_shows_what_would_become_of_each_row(alice: Executor, admin_client: Client) -> None:
    """At most a hundred rows, those that stay as they are left out."""
    same, task = factories.once_task(alice, "Same"), factories.once_task(alice, "Shelf")
    rows = [
        {"id": same.pk, "title": "", "executor": "", "priority": "", "params": ""},
        {"id": task.pk, "title": "\u202eTill", "executor": "", "priority": 5, "params": '{"n": 1}'},
        *({"id": "", "title": f"New {n}", "executor": "uid_alice"} for n in range(101)),
    ]
    page = try_it(admin_client, as_csv(*rows))
    expected = "will be changed", "title Shelf → \\u202eTill; params; priority 0 → 5"
    preview = [(row.line, row.name, outcome, row.note) for row, outcome in page.context["preview"]]
    assert preview[:2] == [(3, "\\u202eTill", *expected), (4, "New 0", "will be new", "")]
    assert (len(page.context["preview"]), page.context["more"]) == (100, 2)


def test_none_takes_away_and_an_empty_cell_does_not(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    ends = frozen_clock.instant + timedelta(days=2)
    template = factories.template("shelf", {"type": "object"})
    task = factories.once_task(
        factories.user(), end_at=ends, template=template, mode="multi", dispatch_times=4
    )
    empty = {"id": task.pk, "end_at": "", "template": "", "dispatch_times": "", "title": ""}
    assert "1 unchanged" in text_of(try_it(admin_client, as_csv(empty)))

    none = {"id": task.pk, "end_at": "none", "template": "None", "dispatch_times": "none"}
    import_it(admin_client, as_csv(none))

    task.refresh_from_db()
    assert (task.end_at, task.template, task.dispatch_times) == (None, None, None)


def test_rule_is_replaced_as_a_whole(admin_client: Client, frozen_clock: FrozenClock) -> None:
    """I23: and has no occurrences before that."""
    task = factories.rotation(factories.user(), rule={"every_days": 2, "at": "09:30"})
    (row,) = export(admin_client, ROTATE)
    frozen_clock.advance(hours=1)
    import_it(admin_client, as_csv({"id": task.pk, "at": "10:00"}), ROTATE)
    task.refresh_from_db()
    assert task.rule == {"every_days": 2, "at": "10:00"}
    row |= {"version": "2", "every_days": "", "at": "", "cron": "0 9 * * *"}
    import_it(admin_client, as_csv(row), ROTATE)
    task.refresh_from_db()
    assert (task.rule, task.effective_from) == ({"cron": "0 9 * * *"}, frozen_clock.instant)
