"""Jobs and hand-outs that are part of something: who is above hears of their ends,
and nobody else pays for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from apps.common import clock
from apps.common.parts import Parts
from apps.dispatch.models import ArchivedDispatch, ArchivedTask, Dispatch, OnceTask
from apps.dispatch.services import archive as dispatch_archive
from apps.dispatch.services import ending, expiry, pull
from apps.dispatch.services import parts as dispatch_parts
from apps.jobs.handlers import Submission
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services import archive, control, move, retention
from apps.jobs.services import parts as job_parts
from apps.jobs.services.submit import submit_part
from tests import factories
from tests.jobs import end, job_type, jobs, row, take
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any) -> Iterator[Any]:
    """`told(action)` is what listeners of jobs and of dispatches hear of it."""
    heard: list[int] = []
    ours = Parts()
    ours.on_end(heard.extend)
    for module in (move, retention):
        monkeypatch.setattr(module, "parts", ours)
    for each in (ending, expiry):
        monkeypatch.setattr(each, "parts", ours)

    def after(action: Any) -> list[int]:
        heard.clear()
        with django_capture_on_commit_callbacks(execute=True):
            action()
        return sorted(heard)

    after.parts = ours  # type: ignore[attr-defined]
    yield after


def cancel(number: int) -> Any:
    return control.cancel(job=row(number), actor="admin:olga", reason="no")


def test_ends_of_jobs_are_told_and_what_brings_them_back(told: Any) -> None:
    job_type()
    first, second, third = (
        each.id for each in submit_part([Submission("mail")] * 3, part_of=7, by="flow")
    )
    assert first < second < third and {*Job.objects.values_list("part_of", flat=True)} == {7}
    jobs(1)
    held = {job.id: job for job in take()}

    assert told(lambda: end(held[first])) == [7]
    assert told(lambda: end(held[second], "failed")) == []
    assert told(lambda: end(held[third], "released")) == []
    assert told(lambda: cancel(third)) == [7]
    assert told(lambda: control.retry(job=row(third), actor="admin:olga")) == [7]
    assert told(lambda: control.run_now(job=row(third), actor="admin:olga")) == []
    with pytest.raises(ZeroDivisionError):
        told(lambda: _rolled_back(third))
    assert row(third).status == "ready"
    [other] = [job for number, job in held.items() if number not in (first, second, third)]
    assert told(lambda: end(other)) == []


def _rolled_back(number: int) -> None:
    with transaction.atomic():
        cancel(number)
        raise ZeroDivisionError


def test_listener_that_breaks_spoils_no_end(told: Any) -> None:
    job_type()
    submit_part([Submission("mail")], part_of=7, by="flow")
    told.parts.on_end(lambda numbers: 1 / 0)
    [held] = take()

    assert told(lambda: end(held)) == [7]
    assert row(held.id).status == "succeeded"


def test_jobs_without_a_part_send_the_same_statements(told: Any) -> None:
    job_type()
    jobs(2)
    submit_part([Submission("mail")] * 2, part_of=7, by="flow")
    alone, _alone, part, _part = take()

    assert len(sent_by(lambda: end(alone))) == len(sent_by(lambda: end(part)))


def test_archive_and_retention_keep_what_a_part_needs(told: Any, frozen_clock: Any) -> None:
    job_type(retention_days=8)
    jobs(1)
    submit_part([Submission("mail")], part_of=7, by="flow")
    submit_part([Submission("mail")], part_of=8, by="flow")
    for held in take():
        end(held)
    asked: list[set[int]] = []

    def owner(numbers: Any) -> set[int]:
        asked.append({*numbers})
        return {7}

    told.parts.keep_while(owner)

    frozen_clock.advance(days=7, seconds=1)
    assert archive.archive_ended(until=clock.now() + timedelta(seconds=9)) == 3
    assert {*ArchivedJob.objects.values_list("part_of", flat=True)} == {None, 7, 8}
    frozen_clock.advance(days=2)
    assert retention.forget(until=clock.now() + timedelta(seconds=9)) == 2
    assert [*ArchivedJob.objects.values_list("part_of", flat=True)] == [7] and asked == [{7, 8}]
    assert row_back(ArchivedJob.objects.get().pk).part_of == 7


def row_back(number: int) -> Job:
    return control.retry(job=ArchivedJob.objects.get(pk=number), actor="admin:olga")


def test_ends_of_what_is_handed_out_are_told(told: Any, frozen_clock: Any) -> None:
    alice, bob = factories.user(), factories.user("uid_bob")
    mine = factories.once_task(alice, part_of=9, lease_seconds=60)
    factories.once_task(bob)
    given: Any = pull.answer_pull(alice.name)
    plain: Any = pull.answer_pull(bob.name)
    assert (given.part_of, plain.part_of) == (9, None)

    assert told(lambda: pull.call_back("uid_bob", plain.pk, "succeeded")) == []
    assert told(lambda: pull.call_back(alice.name, given.pk, "succeeded")) == [9]
    assert told(lambda: pull.call_back(alice.name, given.pk, "succeeded")) == []

    factories.once_task(alice, part_of=10, lease_seconds=60)
    pull.answer_pull(alice.name)
    frozen_clock.advance(seconds=61)
    assert told(lambda: expiry.expire_due(until=clock.now() + timedelta(seconds=9))) == [10]

    frozen_clock.advance(days=100)
    late = clock.now() + timedelta(seconds=1)
    dispatch_archive.move_dispatches([*Dispatch.objects.values_list("pk", flat=True)], late)
    assert {*ArchivedDispatch.objects.values_list("part_of", flat=True)} == {None, 9, 10}
    dispatch_archive.move_tasks(OnceTask, [mine.pk], late)
    kept = ArchivedTask.objects.get(task=mine.pk)
    assert dispatch_archive.task_of(kept, OnceTask).part_of == 9
    # As an earlier version has archived it.
    del kept.body["part_of"]
    assert dispatch_archive.task_of(kept, OnceTask).part_of is None


def test_apps_have_parts_of_their_own() -> None:
    assert job_parts.parts is not dispatch_parts.parts
