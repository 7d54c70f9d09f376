"""Bulk runs over once tasks, from the list as it is narrowed. I65."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.bulk.models import BulkRun
from apps.common import clock
from apps.common.errors import Invalid
from apps.dispatch.models import Executor, OnceTask, OperatorScope
from apps.jobs.models import bounds_of
from apps.journal.models import JournalEntry
from tests import factories
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


def run_of(start: Start, verb: str, wanted: dict[str, Any], **more: Any) -> BulkRun:
    run = start(verb, wanted, kind="once-tasks", **more)
    carry_out(run)
    run.refresh_from_db()
    return run


@pytest.mark.parametrize(
    ("verb", "params", "after"),
    [
        ("pause", {}, {"status": "paused"}),
        ("priority", {"priority": 7}, {"priority": 7}),
        ("end", {"end_at": LATER}, {"end_at": LATER}),
        ("delete", {}, {"status": "deleted"}),
    ],
)
def test_each_action_changes_the_tasks(
    start: Start, planned: list[OnceTask], verb: str, params: dict[str, Any], after: dict[str, Any]
) -> None:
    run = run_of(start, verb, {"status": ["active"]}, params=params)
    assert (run.state, run.done) == ("done", 3), list(run.rows.values_list("why", flat=True))
    for task in OnceTask.objects.all():
        assert {name: getattr(task, name) for name in after} == after
        entry = JournalEntry.objects.filter(subject_id=task.pk, type_or_task=f"once:{task.pk}")
        assert entry.latest("id").reason == "wrong address"


def test_shift_moves_start_and_end_and_back_again(start: Start, ann: Executor) -> None:
    end_at = clock.now() + timedelta(days=1)
    task = factories.once_task(ann, end_at=end_at)
    run_of(start, "shift", {}, params={"shift_seconds": 3600})
    moved = OnceTask.objects.get()
    assert (moved.start_at, moved.end_at) == (
        task.start_at + timedelta(hours=1),
        end_at + timedelta(hours=1),
    )
    run_of(start, "shift", {}, params={"shift_seconds": -3600})
    assert OnceTask.objects.get().end_at == end_at


def test_executors_notice_the_change(start: Start, planned: list[OnceTask], ann: Executor) -> None:
    before = Executor.objects.get(pk=ann.pk).plan_version
    run_of(start, "pause", {"executor": "uid_ann"})
    assert Executor.objects.get(pk=ann.pk).plan_version > before


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


@pytest.mark.parametrize(
    ("verb", "params"),
    [("end", {}), ("shift", {}), ("priority", {"priority": 101}), ("pause", {"priority": 1})],
)
def test_wrong_fields_are_refused(start: Start, verb: str, params: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        start(verb, {}, kind="once-tasks", params=params)


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


def test_list_of_a_state_that_is_worked_out_offers_no_runs(
    role_client: Callable[[str], Client], planned: list[OnceTask]
) -> None:
    listed = role_client("operator").get("/admin/dispatch/oncetask/", {"status": "overdue"})
    assert listed.context["bulk_links"] == []
