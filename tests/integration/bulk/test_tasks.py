"""Bulk runs over once tasks and rotations, from the lists as they are narrowed. I65."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.bulk.models import BulkRun
from apps.bulk.services.plan import plan
from apps.bulk.services.selection import Selection
from apps.bulk.services.targets import target_of
from apps.common import clock
from apps.common.errors import Invalid
from apps.common.filtering import RowFilter
from apps.dispatch.models import Executor, OnceTask, OperatorScope, RotateTask, Task
from apps.jobs.models import Bounds, bounds_of
from apps.journal.models import JournalEntry
from tests import factories
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
Start = Callable[..., BulkRun]
LATER = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def ann(frozen_clock: FrozenClock) -> Executor:
    return factories.user("uid_ann")


@pytest.fixture
def planned(ann: Executor) -> list[OnceTask]:
    return [factories.once_task(ann, f"Shelf {n}") for n in range(3)]


MAKE: dict[str, Callable[..., Any]] = {
    "once-tasks": factories.once_task,
    "rotate-tasks": factories.rotation,
}
BOTH = pytest.mark.parametrize("kind", MAKE)


def run_of(
    start: Start, verb: str, wanted: dict[str, Any], kind: str = "once-tasks", **more: Any
) -> BulkRun:
    run = start(verb, wanted, kind=kind, **more)
    carry_out(run)
    run.refresh_from_db()
    return run


def reasons(run: BulkRun) -> dict[int, str]:
    return dict(run.rows.filter(outcome="skipped").values_list("target", "why"))


@pytest.mark.both
@BOTH
def test_tasks_move_to_a_version_that_they_fit_and_can_be_moved_back(
    start: Start, ann: Executor, kind: str
) -> None:
    first = factories.template(schema={"type": "object"})
    fits, does_not = (
        MAKE[kind](ann, f"Shelf {n}", template=first, params={"photos": photos})
        for n, photos in enumerate((2, "many"))
    )
    free = MAKE[kind](ann, "Free", template=factories.template("other"), params={"shop": "S1"})
    none = MAKE[kind](ann, "None")
    whole = {"type": "object", "properties": {"photos": {"type": "integer"}}}
    second = factories.template(schema=whole)
    run = run_of(start, "version", {}, kind, params={"version": 2})
    fits.refresh_from_db()
    does_not.refresh_from_db()
    assert (fits.template, does_not.template) == (second, first)
    whys = reasons(run)
    assert whys[none.pk] == "has no template"
    assert whys[free.pk] == "other has no version 2."
    assert whys[does_not.pk].startswith("The params do not fit their schema")
    again = run_of(start, "version", {"ids": [fits.pk]}, kind, params={"version": 2})
    assert reasons(again) == {fits.pk: "has this version already"}
    back = run_of(start, "undo", {"run": str(run.pk)}, kind, params={"verb": "version"})
    fits.refresh_from_db()
    assert (back.done, fits.template) == (1, first)


@pytest.mark.both
@BOTH
def test_each_action_changes_the_tasks(
    start: Start, ann: Executor, kind: str, subtests: pytest.Subtests
) -> None:
    for verb, params, after in [
        ("pause", {}, {"status": "paused"}),
        ("priority", {"priority": 7}, {"priority": 7}),
        ("end", {"end_at": LATER}, {"end_at": LATER}),
        ("delete", {}, {"status": "deleted"}),
    ]:
        with subtests.test(kind=kind, verb=verb), undone():
            for n in range(3):
                MAKE[kind](ann, f"Shelf {n}")
            run = run_of(start, verb, {"status": ["active"]}, kind, params=params)
            assert (run.state, run.done) == ("done", 3), reasons(run)
            for task in target_of(kind).model._default_manager.all():
                assert {name: getattr(task, name) for name in after} == after
                label = f"{task.source}:{task.pk}"
                entries = JournalEntry.objects.filter(subject_id=task.pk, type_or_task=label)
                assert entries.latest("id").reason == "wrong address"


@BOTH
def test_copy_plans_each_task_once_more_and_paused(start: Start, ann: Executor, kind: str) -> None:
    first = MAKE[kind](ann, "Shelf", priority=3, params={"shop": "7"})
    gone = MAKE[kind](ann, "Gone")
    rows = type(first)._default_manager
    rows.filter(pk=gone.pk).update(status="deleted")
    before = Executor.objects.get(pk=ann.pk).plan_version

    run = run_of(start, "copy", {}, kind)

    assert (run.done, reasons(run)) == (1, {gone.pk: "deleted"})
    [copy] = rows.exclude(pk__in=[first.pk, gone.pk])
    assert copy.status == "paused"
    same = {name: getattr(first, name) for name in first.editable if name != "status"}
    assert {name: getattr(copy, name) for name in same} == same
    made = JournalEntry.objects.get(subject_id=copy.pk, event="task_created")
    assert made.data["after"]["copied_from"] == f"{first.source}:{first.pk}"
    assert JournalEntry.objects.filter(subject_id=first.pk, event="task_copied").exists()
    assert Executor.objects.get(pk=ann.pk).plan_version > before


def test_shift_moves_start_and_end_and_back_again(start: Start, ann: Executor) -> None:
    end_at = clock.now() + timedelta(days=1)
    task = factories.once_task(ann, end_at=end_at)
    run_of(start, "shift", {"executor": "uid_ann"}, params={"shift_seconds": 3600})
    moved = OnceTask.objects.get()
    assert (moved.start_at, moved.end_at) == (
        task.start_at + timedelta(hours=1),
        end_at + timedelta(hours=1),
    )
    run_of(start, "shift", {}, params={"shift_seconds": -3600})
    assert OnceTask.objects.get().end_at == end_at


def test_what_does_not_change_is_skipped_with_the_reason(
    start: Start, ann: Executor, planned: list[OnceTask]
) -> None:
    factories.once_task(ann, status="paused")
    late = factories.once_task(ann, start_at=LATER + timedelta(days=1))
    run = run_of(start, "pause", {})
    assert (run.done, run.skipped) == (4, 1)
    assert run.rows.get(outcome="skipped").why == "paused"
    ended = run_of(start, "end", {}, params={"end_at": LATER})
    assert ended.rows.get(outcome="skipped").target == late.pk
    assert ended.rows.get(outcome="skipped").why == "starts later"


def test_limited_person_changes_only_tasks_within_the_limits(
    start: Start, operator: User, planned: list[OnceTask]
) -> None:
    mine = factories.once_task(factories.user("uid_bob"))
    OperatorScope.objects.create(operator=operator, executor=factories.member("uid_bob"))
    operator = User.objects.get(pk=operator.pk)
    run = run_of(start, "pause", {}, bounds=bounds_of(operator))
    assert run.collected == 1
    assert list(OnceTask.objects.filter(status="paused")) == [mine]


def test_wrong_fields_are_refused(start: Start, subtests: pytest.Subtests) -> None:
    for verb, params in [
        ("end", {}),
        ("end", {"end_at": datetime(9999, 1, 1, tzinfo=UTC)}),
        ("shift", {}),
        ("shift", {"shift_seconds": 0}),
        ("priority", {"priority": 101}),
        ("pause", {"priority": 1}),
    ]:
        with subtests.test(verb=verb, params=params), pytest.raises(Invalid):
            start(verb, {}, kind="once-tasks", params=params)


@pytest.mark.both
def test_list_leads_to_a_plan_of_the_same_tasks(
    role_client: Callable[[str], Client], ann: Executor, planned: list[OnceTask]
) -> None:
    """The list shows a week before and ahead unless days are chosen, and no deleted tasks."""
    factories.once_task(ann, "Far ahead", start_at=clock.now() + timedelta(days=30))
    factories.once_task(ann, "Gone", status="paused")
    OnceTask.objects.filter(title="Gone").update(status="deleted")
    page = role_client("operator")
    listed = page.get("/admin/dispatch/oncetask/")
    assert listed.context["cl"].result_count == 3
    urls = {str(words): url for words, url in listed.context["bulk_links"]}
    plan = page.get(urls["Pause"])
    assert "3 rows match" in text_of(plan)
    form = form_of(plan, "once")
    page.post(urls["Pause"], {**form, "reason": "closed"})
    carry_out(BulkRun.objects.get())
    assert {*OnceTask.objects.filter(status="paused")} == {*planned}


# --- rotations ------------------------------------------------------------------------------------
def rotations_of(ann: Executor, *rules: dict[str, Any]) -> list[RotateTask]:
    return [factories.rotation(ann, rule=rule, time_zone="UTC", misfire="all") for rule in rules]


def is_without_a_past(task: RotateTask, now: datetime) -> bool:
    return next(task.recurrence.before(now), None) is None


@pytest.mark.parametrize(
    ("verb", "params", "into"),
    [
        ("resume", {}, {"status": "paused"}),
        ("shift", {"shift_seconds": 600}, {}),
        ("end", {"end_at": LATER}, {"end_at": datetime(2026, 3, 3, tzinfo=UTC)}),
    ],
)
def test_run_over_rotations_makes_no_past(
    start: Start,
    ann: Executor,
    frozen_clock: FrozenClock,
    verb: str,
    params: dict[str, Any],
    into: dict[str, Any],
) -> None:
    """I23."""
    [task] = rotations_of(ann, {"every_minutes": 45})
    RotateTask.objects.filter(pk=task.pk).update(**into)
    now = frozen_clock.advance(days=3)
    assert not is_without_a_past(task, now)

    assert run_of(start, verb, {}, "rotate-tasks", params=params).done == 1

    changed = RotateTask.objects.get()
    assert is_without_a_past(changed, now - timedelta(seconds=1))
    assert changed.effective_from == now
    assert next(changed.recurrence.after(now), None) is not None


@pytest.mark.both
def test_plan_and_run_leave_out_rotations_that_a_shift_would_not_move(
    start: Start, ann: Executor, frozen_clock: FrozenClock
) -> None:
    by_clock, by_start = rotations_of(ann, {"cron": "0 9 * * *"}, {"every_minutes": 45})
    frozen_clock.advance(days=3)
    target, params = target_of("rotate-tasks"), {"shift_seconds": 600}
    said = plan(Selection(target, RowFilter({})), "shift", params, bounds=Bounds(), rate=200)
    assert (said.matches, said.eligible) == (2, 1)
    [(why, _count)] = said.left_out
    assert "due at the same times as before" in why

    run = run_of(start, "shift", {}, "rotate-tasks", params=params)

    assert reasons(run) == {by_clock.pk: why}
    moved = RotateTask.objects.get(pk=by_start.pk)
    assert moved.start_at == by_start.start_at + timedelta(seconds=600)


def test_rotations_beyond_the_limit_of_their_executor_stay_paused(
    start: Start, ann: Executor, settings: Any
) -> None:
    settings.ROTATIONS_PER_EXECUTOR = 1
    for _each in range(2):
        factories.rotation(ann, status="paused")
    run = run_of(start, "resume", {}, "rotate-tasks")
    assert (run.done, run.skipped) == (1, 1)
    assert "has 1 active repeating tasks" in run.rows.get(outcome="skipped").why
    assert RotateTask.objects.filter(status="active").count() == 1


@pytest.mark.both
def test_list_of_rotations_leads_to_a_plan_of_the_same_ones(
    role_client: Callable[[str], Client], ann: Executor, frozen_clock: FrozenClock
) -> None:
    """The list shows those that run within its days, and whose titles have all words."""
    factories.rotation(ann, "Till of the second shop, check")
    factories.rotation(ann, "Check the shelf")
    now = frozen_clock.instant
    for days in ({"start_at": now + timedelta(days=9)}, {"end_at": now + timedelta(hours=1)}):
        factories.rotation(ann, **days)
    frozen_clock.advance(days=3)
    paused = factories.rotation(ann, status="paused")
    page, day = role_client("operator"), frozen_clock.instant.date().isoformat()
    listed = page.get(
        "/admin/dispatch/rotatetask/", {"q": "till check", "from_day": day, "to_day": day}
    )
    shown = {row.title for row in listed.context["cl"].result_list}
    urls = {str(words): url for words, url in listed.context["bulk_links"]}
    assert [*urls][-2:] == ["Copy", "Delete"]
    planned = page.get(urls["Pause"])
    assert "2 rows match" in text_of(planned)
    page.post(urls["Pause"], {**form_of(planned, "once"), "reason": "closed"})
    carry_out(BulkRun.objects.get())
    found = RotateTask.objects.filter(status="paused")
    assert {task.title for task in found} == shown
    assert found.count() == 2 and paused in found


@BOTH
def test_row_that_the_database_refuses_does_not_stop_the_others(
    start: Start, ann: Executor, kind: str, monkeypatch: Any
) -> None:
    first, bad, last = (MAKE[kind](ann, f"Shelf {n}") for n in range(3))
    save = Task.save

    def refused(task: Any, **given: Any) -> None:
        if task.pk == bad.pk:
            task.updated_by = None
        save(task, **given)

    monkeypatch.setattr(Task, "save", refused)
    run = run_of(start, "priority", {}, kind, params={"priority": 7})
    assert (run.state, run.done, run.skipped, run.failed) == ("done", 2, 0, 1)
    model = target_of(kind).model._default_manager
    assert {*model.filter(priority=7)} == {first, last}
