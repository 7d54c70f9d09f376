"""S1.7, S1.10, S1.13, S1.21, S4.5, I26, I28-I30, I37, I39, I59: any order of reports, rescues and
steps of operators leaves the table as the plain model says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import transaction
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.common import clock, ids
from apps.common.errors import Conflict, PlatformError
from apps.jobs.models import Job, JobType
from apps.jobs.services import control
from apps.jobs.services import hold as holding
from apps.jobs.services.hold import HeldJob, Holder, hold
from apps.jobs.services.leases import Heartbeat, Renewed, checkpoint, renew
from apps.jobs.services.rescue import rescue_due
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.integration.jobs.machine import model
from tests.jobs import end, job_type, jobs

pytestmark = pytest.mark.both

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOLDERS = [Holder("host-a:1", "host-a"), Holder("host-b:2", "host-b")]
ENDS = ["succeeded", "failed", "released", "cancelled"]
TYPES = ("mail", "bill")
# The columns that are as the model has them, and those that tell of an end.
SAME = (
    *("status", "attempts", "holds", "version", "run_at", "lease_until", "hard_end_at"),
    *("stage", "checkpoint", "sequence", "last_end"),
)
ENDED = ("finished_at", "unique_key")


class JobsMachine(RuleBasedStateMachine):
    """The services on one side, the model on the other, one clock for both."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.clock = FrozenClock(START)
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch.object(clock, "now", self.clock))
        # Every hold promotes what is due, as the model has it.
        self.patches.enter_context(mock.patch.object(holding, "PROMOTION_SECONDS", 0))
        self.patches.enter_context(mock.patch.object(holding, "_promote_at", 0))
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.model = model.Model(START)

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)
        self.patches.close()

    @initialize()
    def types(self) -> None:
        for name in TYPES:
            job_type(
                name,
                stages=model.STAGES,
                lease_seconds=model.LEASE,
                max_processing_seconds=model.HARD_END,
                retry_delay_seconds=model.DELAY,
                expires_after_seconds=model.EXPIRY,
            )

    @rule(
        name=st.sampled_from(TYPES),
        delay=st.sampled_from([0, 0, 5, 40]),
        priority=st.integers(-2, 2),
        maximum=st.sampled_from([1, 2, 3, 3]),
    )
    def submit(self, name: str, delay: int, priority: int, maximum: int) -> None:
        run_at = self.clock.instant + timedelta(seconds=delay)
        [number] = jobs(
            1, name, run_at=run_at, priority=priority, max_attempts=maximum, stage="one"
        )
        self.model.submit(model.Job(number, name, run_at, priority=priority, max_attempts=maximum))

    @rule(seconds=st.sampled_from([0.5, 5, 15, 31, 101, 1000]))
    def time_passes(self, seconds: float) -> None:
        self.model.now = self.clock.advance(seconds=seconds)

    @rule(
        target=leases,
        by=st.sampled_from(HOLDERS),
        limit=st.integers(1, 4),
        rotation=st.integers(0, 5),
        types=st.sampled_from([TYPES, TYPES[:1]]),
    )
    def hold_some(self, by: Holder, limit: int, rotation: int, types: tuple[str, ...]) -> Any:
        self.model.promote()
        held = hold(holder=by, types=types, limit=limit, rotation=rotation)
        self._adopt_discarded()
        assert len(held) <= limit
        for name in types:
            mine = [job for job in held if job.type == name]
            expected = [job.id for job in self.model.ready(name)[: len(mine)]]
            assert [job.id for job in mine] == expected
        assert held or not any(self.model.ready(name) for name in types)
        for job in held:
            self.model.held(job.id, job.token)
            assert job.attempt == self.model.jobs[job.id].attempts
            assert job.checkpoint == self.model.jobs[job.id].checkpoint
        return multiple(*held)

    def _adopt_discarded(self) -> None:
        """Which exhausted jobs a hold reaches depends on how far it reads."""
        failed = Job.objects.filter(status="failed").values_list("pk", flat=True)
        for number in failed:
            job = self.model.jobs[number]
            if job.status == "ready":
                self.model.discard_if_exhausted(job)
                assert job.status == "failed"

    @rule(held=leases, how=st.sampled_from(ENDS))
    def report(self, held: HeldJob, how: str) -> None:
        expected = self.model.settled(held.id, held.token, how)
        assert end(held, how) == expected

    @rule(held=leases, stage=st.sampled_from(model.STAGES))
    def report_stage(self, held: HeldJob, stage: str) -> None:
        expected = self.model.settled(held.id, held.token, "stage_done", stage)
        assert end(held, "stage_done", stage=stage) == expected

    @rule(held=leases)
    def beat(self, held: HeldJob) -> None:
        expected = self.model.renewed(held.id, held.token)
        [answer] = renew(heartbeats=[Heartbeat(id=held.id, token=held.token)])
        assert isinstance(answer, Renewed) == expected

    @rule(held=leases, sequence=st.integers(1, 4))
    def save(self, held: HeldJob, sequence: int) -> None:
        expected = self.model.saved(held.id, held.token, sequence)
        try:
            checkpoint(job=held.id, token=held.token, data=sequence, sequence=sequence)
        except PlatformError as error:
            assert error.code == expected
        else:
            assert expected == "ok"

    @rule()
    def rescue(self) -> None:
        self.model.rescue()
        rescue_due(until=self.clock.instant + timedelta(seconds=1))

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), force=st.booleans())
    def cancel(self, data: st.DataObject, force: bool) -> None:
        job = self._some(data)
        expected = self.model.cancelled(job, force)
        self._operate(job, expected, control.cancel, force=force)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job = self._some(data)
        self._operate(job, self.model.retried(job), control.retry)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def mark_done(self, data: st.DataObject) -> None:
        job = self._some(data)
        self._operate(job, self.model.marked_done(job), control.mark_done)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        job = self._some(data)
        self._operate(job, self.model.run_now(job), control.run_now)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), priority=st.integers(-2, 2), maximum=st.integers(1, 4))
    def edit(self, data: st.DataObject, priority: int, maximum: int) -> None:
        job = self._some(data)
        version = job.version
        expected = self.model.edited(job, priority, maximum)
        changes = {"priority": priority, "max_attempts": maximum}
        self._operate(job, expected, control.edit, version=version, changes=changes)

    def _some(self, data: st.DataObject) -> model.Job:
        return self.model.jobs[data.draw(st.sampled_from(sorted(self.model.jobs)))]

    def _operate(
        self, job: model.Job, expected: bool, action: Callable[..., Any], **details: Any
    ) -> None:
        row = Job.objects.get(pk=job.id)
        try:
            with transaction.atomic():
                action(job=row, actor="admin:olga", reason="because", **details)
        except Conflict:
            assert not expected
        else:
            assert expected

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), maximum=st.integers(1, 4))
    def change_maximum_by_sql(self, data: st.DataObject, maximum: int) -> None:
        """Also of a job under way, which no form offers."""
        job = self._some(data)
        job.max_attempts = maximum
        Job.objects.filter(pk=job.id).update(max_attempts=maximum)

    @invariant()
    def table_is_as_the_model_says(self) -> None:
        rows = {row["id"]: row for row in Job.objects.values("id", *SAME, *ENDED)}
        assert rows.keys() == self.model.jobs.keys()
        for number, expected in self.model.jobs.items():
            row = rows[number]
            assert {name: row[name] for name in SAME} == {
                name: getattr(expected, name) for name in SAME
            }
            assert row["holds"] - expected.releases == row["attempts"] + expected.spent
            assert (row["finished_at"] is not None) == expected.is_final
            assert (row["unique_key"] is None) or not expected.is_final

    @invariant()
    def journal_reports_every_end_once(self) -> None:
        events: dict[int, list[str]] = {number: [] for number in self.model.jobs}
        entries = JournalEntry.objects.filter(source="job").order_by("id")
        for number, event in entries.values_list("subject_id", "event"):
            events[number].append(event)
        assert events == {number: job.ends for number, job in self.model.jobs.items()}


@pytest.mark.django_db(transaction=True)
def test_jobs_are_as_the_model_says() -> None:
    ids.next_id()
    JobType.objects.all().delete()
    run_state_machine_as_test(JobsMachine, settings=hypothesis_settings(stateful_step_count=40))
