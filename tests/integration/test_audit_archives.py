"""`manage.py audit` on what is in an archive, or was: I61 and I63 are broken by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import audit as auditing
from apps.common import clock
from apps.dispatch.models import ArchivedDispatch, ArchivedTask, Dispatch, OnceTask, Stock
from apps.dispatch.services import retention, tasks
from apps.dispatch.services.archive import restore_task
from apps.jobs.models import ArchivedJob, Job, JobType
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services import control
from apps.jobs.services.find import find_job
from apps.jobs.services.hold import Holder, hold
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from tests import callback, factories
from tests.auditing import audit, breaches
from tests.frozen import FrozenClock
from tests.history import forget, logged, move

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)


class TestArchive:
    """I61: what has ended is in one of two tables, until its time is over."""

    @pytest.fixture
    def ended(self, frozen_clock: FrozenClock) -> int:
        factories.job_type(max_attempts=3)
        number = submit("mail").id
        [held] = hold(holder=Holder("w:1", "w"), types=["mail"], limit=1)
        settle(outcomes=[Outcome(id=number, token=held.token, end="succeeded")])
        frozen_clock.advance(days=8)
        return number

    def test_moves_restores_and_forgetting_keep_it(
        self, ended: int, frozen_clock: FrozenClock
    ) -> None:
        assert move() == 1
        assert audit()[0] == 0
        control.retry(job=find_job(ended), actor="admin:olga", reason="again")
        assert audit()[0] == 0
        control.cancel(job=find_job(ended), actor="admin:olga", reason="not needed")
        frozen_clock.advance(days=8)
        assert move() == 1
        assert audit()[0] == 0
        frozen_clock.advance(days=400)
        assert forget() == 1
        assert audit()[0] == 0

    def test_job_in_both_tables(self, ended: int) -> None:
        copy = Job.objects.get(pk=ended)
        move()
        copy.save(force_insert=True)
        assert breaches() == [f"I61 job {ended}: is among the live jobs and the older ones"]

    @pytest.mark.parametrize("is_archived", [False, True])
    def test_job_that_is_nowhere(self, ended: int, is_archived: bool) -> None:
        if is_archived:
            move()
        Job.objects.all().delete()
        ArchivedJob.objects.all().delete()
        [line] = breaches()
        assert line.startswith(f"I61 job {ended}: ended at 2026-03-02 09:00:00")
        assert line.endswith("and is kept nowhere")

    def test_log_of_a_job_that_is_nowhere(self, ended: int) -> None:
        logged(ended, ended + 1)
        assert breaches() == [f"I61 job {ended + 1}: is kept nowhere, but its log is"]

    def test_time_of_the_type_counts(self, ended: int) -> None:
        move()
        ArchivedJob.objects.all().delete()
        JobType.objects.update(retention_days=7)
        assert audit()[0] == 0
        JobType.objects.update(retention_days=9)
        assert audit()[0] == 1


class TestArchiveOfDispatches:
    """I63: what has ended or is over is in one of two tables, until its time is over."""

    @pytest.fixture
    def task(self, frozen_clock: FrozenClock) -> OnceTask:
        """With a dispatch that ended a month ago."""
        alice = factories.user()
        task = factories.once_task(alice)
        callback.finish(alice)
        tasks.delete_task(task=task, actor=factories.OPERATOR)
        frozen_clock.advance(days=31)
        return task

    @staticmethod
    def purge(frozen_clock: FrozenClock, **gone: int) -> None:
        """A day later."""
        frozen_clock.advance(days=1)
        assert retention.purge(until=clock.now() + timedelta(hours=1)) == gone

    def test_moves_restores_and_forgetting_keep_it(
        self, task: OnceTask, frozen_clock: FrozenClock
    ) -> None:
        assert audit()[0] == 0
        self.purge(frozen_clock, dispatches=1, stocks=1)
        assert audit()[0] == 0
        self.purge(frozen_clock, once_tasks=1)
        assert audit()[0] == 0
        restore_task(OnceTask, number=task.pk, actor=factories.OPERATOR, reason="again")
        assert audit()[0] == 0
        frozen_clock.advance(days=30)
        self.purge(frozen_clock, once_tasks=1)
        assert audit()[0] == 0
        frozen_clock.advance(days=400)
        self.purge(frozen_clock, archived_dispatches=1, archived_tasks=1)
        assert audit()[0] == 0

    def test_in_both_tables(self, task: OnceTask, frozen_clock: FrozenClock) -> None:
        dispatch = Dispatch.objects.get()
        stock = Stock.objects.get()
        self.purge(frozen_clock, dispatches=1, stocks=1)
        self.purge(frozen_clock, once_tasks=1)
        dispatch.save(force_insert=True)
        stock.save(force_insert=True)
        task.save(force_insert=True)
        assert breaches() == [
            f"I63 dispatch {dispatch.pk}: is among the live ones and the older ones",
            f"I63 once task {task.pk}: is among the live ones and the older ones",
        ]

    @pytest.mark.parametrize("is_archived", [False, True])
    def test_nowhere(self, task: OnceTask, frozen_clock: FrozenClock, is_archived: bool) -> None:
        number = Dispatch.objects.get().pk
        if is_archived:
            self.purge(frozen_clock, dispatches=1, stocks=1)
            self.purge(frozen_clock, once_tasks=1)
        for model in (Dispatch, ArchivedDispatch, Stock, OnceTask, ArchivedTask):
            model._default_manager.all().delete()
        first, second = breaches()
        told = "is kept nowhere, though the journal names it at 2026-03-02 09:00:00"
        assert first.startswith(f"I63 dispatch {number}: {told}")
        assert second.startswith(f"I63 once task {task.pk}: {told}")

    def test_its_time_counts(
        self, task: OnceTask, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        for model in (Dispatch, Stock, OnceTask):
            model._default_manager.all().delete()
        settings.DISPATCH_RETENTION, settings.TASK_RETENTION = (timedelta(31), timedelta(61))
        assert len(breaches()) == 2
        frozen_clock.advance(seconds=1)
        assert audit()[0] == 0
