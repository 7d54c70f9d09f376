"""Advance: one transaction that ends the steps of a run that are over and begins those that follow.

It looks at what is there, whoever calls it and however often: the hook of ends, the sweep, a
person. It holds the lock of the run; only then come steps, jobs and tasks. Every change of a step
is an UPDATE that names the state it was in.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from apps.common.db import transactional
from apps.common.errors import Invalid, PlatformError
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.shaped import Misshapen
from apps.common.texts import begin_of
from apps.flows.models import MAX_MEMO, FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.rules.definition import Step
from apps.flows.rules.ends import COUNTED, TOO_FEW, TOO_FEW_PEOPLE, TOO_LARGE, End
from apps.flows.rules.joins import Verdict
from apps.flows.rules.looks import AT_FAILED, BROKE, next_look
from apps.flows.rules.references import GIVEN, PARAMS, Missing, holds, references, resolved
from apps.flows.services import people, programs
from apps.flows.services.locked_run import BEGUN, LockedRun
from apps.jobs.conf import conf as jobs_conf

Status = FlowRun.Status
CANCELLED = _("the run was cancelled")
TOO_LATE = _("not done within {seconds} s")
NOT_NEEDED = _("what it needs was skipped, or is well")
NOT_WANTED = _("{step} is not as its condition wants")
# What the platform says why a step has failed, was skipped or does not go on.
MEMOS = (BROKE, CANCELLED, TOO_LATE, NOT_NEEDED, NOT_WANTED, TOO_LARGE, TOO_FEW, TOO_FEW_PEOPLE)


@transactional
def advance(number: int) -> bool:
    """Bring the run up to date; whether there is more to do at once."""
    run = FlowRun.objects.select_for_update().filter(pk=number).first()
    return run is not None and Advance(run).go()


class Advance(LockedRun):
    """The look at a locked run: what ends, what begins, and whether it is over."""

    def __init__(self, run: FlowRun, **known: Any) -> None:
        super().__init__(run, **known)
        # Whether a block of many was dealt with, and others follow.
        self.more = False
        # Steps that were looked at, or have begun and cannot have ended.
        self._looked: set[str] = set()
        # About the bytes of the jobs made, and the step that is begun by the next transaction.
        self._made = 0
        self._next = ""

    def go(self) -> bool:
        """End, begin, and so on until nothing changes; then the run may end. Writes the journal."""
        run = self.run
        if run.status not in (Status.SUCCEEDED, Status.CANCELLED):
            self._reopen()
        if isinstance(run.definition, Misshapen) and run.status == Status.RUNNING:
            raise Invalid(run.definition.why)
        if run.is_open:
            while self._end_steps() | self._begin_steps():
                pass
            self._end_run()
        self._look_later()
        self.write_entries()
        return self.more

    # --- ending steps -----------------------------------------------------------------------------
    def _active(self) -> list[FlowStep]:
        return [row for row in self.steps.values() if row.state == joins.ACTIVE]

    def _end_steps(self) -> bool:
        changed = False
        for row in self._active():
            if row.name in self._looked:
                continue
            self._looked.add(row.name)
            end = self._look(row)
            if end is not None:
                self.end(row, end)
                changed = True
        return changed

    def _look(self, row: FlowStep) -> End | None:
        """How an active step ends now; None while it goes on."""
        if self.run.status == Status.CANCELLING:
            return self._look_at_cancelled(row)
        step = self.run.read.steps[row.name]
        why = self._why_stopped(row, step)
        if step.kind == shapes.WAIT:
            return self._look_at_wait(row, step, why)
        if why:
            # A part of a step that ends as a whole.
            self._stop(row, why, force=True)
        is_task = step.kind == shapes.TASK
        end = people.look(row, step, self.now) if is_task else programs.look(row, step)
        if end is None:
            return None
        if row.by:
            return End(joins.SKIPPED, row.result, row.memo)
        if why and end.state == joins.FAILED:
            return end._replace(memo=f"{why}: {end.memo}")
        return end

    def _look_at_cancelled(self, row: FlowStep) -> End | None:
        """As `_look`. Without the definition, so that a run which that breaks can be cancelled."""
        self._stop(row, self.run.reason or CANCELLED, force=self.run.is_forced)
        is_open = people.is_open(row) if row.task else programs.is_open(row.first, row.last, row.pk)
        return None if is_open else End(joins.CANCELLED)

    def _why_stopped(self, row: FlowStep, step: Step) -> str:
        """Why an active step is not to go on; "" when it is."""
        if row.by:
            return row.memo
        if row.deadline_at is not None and row.deadline_at <= self.now:
            return Message(TOO_LATE, seconds=step.within or 0)
        return ""

    def _look_at_wait(self, row: FlowStep, step: Step, why: str) -> End | None:
        if (over_at := step.over_at(row.started_at)) and over_at <= self.now:
            return End(joins.SUCCEEDED)
        return End(joins.FAILED, None, why) if why else None

    def _stop(self, row: FlowStep, why: str, *, force: bool) -> None:
        if row.task:
            people.stop(row, actor=self.actor, reason=why, force=force)
        else:
            more = programs.cancel_open(row, actor=self.actor, reason=why, force=force)
            self.more = self.more or more

    def end(self, row: FlowStep, end: End, *, by: str = "") -> None:
        """The step has ended so."""
        before = row.state
        is_failed_jobs = end.state == joins.FAILED and row.first is not None
        self.write(
            row,
            state=end.state,
            result=end.result,
            memo=begin_of(end.memo, MAX_MEMO),
            ended_at=self.now,
            look_at=self.now + AT_FAILED if is_failed_jobs else None,
            **({"by": by[:160]} if by else {}),
        )
        event = "step_skipped" if end.state == joins.SKIPPED else "step_ended"
        data = {"made": row.made, **_counts(row, end)} if row.made else {}
        self.note(
            event,
            row,
            from_state=before,
            to_state=end.state,
            reason=end.memo or self.reason,
            run_ms=self.ms_since(row.started_at) if before == joins.ACTIVE else None,
            data=data,
        )

    # --- beginning steps --------------------------------------------------------------------------
    def _begin_steps(self) -> bool:
        if self.run.status != Status.RUNNING or self.run.is_paused:
            return False
        changed = False
        for name, verdict in self._verdicts().items():
            row, step = self.steps[name], self.run.read.steps[name]
            if verdict is Verdict.START and self._made >= programs.ENOUGH_BYTES:
                self._begin_later(row)
                return False
            if verdict is Verdict.SKIP:
                self.end(row, End(joins.SKIPPED, None, NOT_NEEDED))
            elif verdict is Verdict.START:
                self._begin(row, step)
            changed = changed or verdict in (Verdict.SKIP, Verdict.START)
        return changed

    def _verdicts(self) -> dict[str, Verdict]:
        stands = {name: row.stands for name, row in self.steps.items()}
        return joins.verdicts(self.run.read, stands)

    def _begin_later(self, row: FlowStep) -> None:
        """Have the sweep begin the step, which has no jobs yet: others write meanwhile."""
        self._next, self.more = row.name, True
        self.write(row, look_at=self.now)

    def _begin(self, row: FlowStep, step: Step) -> None:
        """Begin the step, unless its condition does not hold. What a definition can cause ends it
        as failed."""
        try:
            # Jobs are made by one statement, after all that can be wrong with them.
            with transaction.atomic() if step.kind == shapes.TASK else nullcontext():
                columns = self._begun(row, step)
        except Missing as missing:
            self.end(row, End(joins.FAILED, None, missing.message))
            return
        except PlatformError as error:
            self.end(row, End(joins.FAILED, None, error.detail))
            return
        if columns is None:
            said = step.said["if"]
            why = Message(NOT_WANTED, step=_named(said))
            self.end(row, End(joins.SKIPPED, None, why))
            return
        self.write(row, state=joins.ACTIVE, **self._times(row, step), **columns)
        if step.kind != shapes.WAIT and (row.made or row.task):
            self._looked.add(row.name)
        data = {name: columns[name] for name in ("made", "task") if columns.get(name)}
        self.note(BEGUN, row, to_state=joins.ACTIVE, data=data)

    def _begun(self, row: FlowStep, step: Step) -> dict[str, Any] | None:
        """The columns of a step that has begun; None when its condition does not hold."""
        said = step.said
        results = self._results(step)
        if "if" in said and not holds(said["if"], results):
            return None
        handles = {
            each.name: self._handle(each.name)
            for given in GIVEN
            for each in references(said.get(given), "")
            if each.is_handle
        }
        values = {name: resolved(said[name], results, handles) for name in GIVEN if name in said}
        if step.kind == shapes.WAIT:
            return {}
        if step.kind == shapes.TASK:
            params = values.get("params", {})
            return people.begin(self.run, row, step, params, self.now, self._deadline(step))
        begun, size = programs.begin(self.run, row, step, values)
        self._made += size
        return begun

    def _results(self, step: Step) -> dict[str, Any]:
        """Read what the references of the step name: the params, and the results of other steps."""
        named = step.names & self.steps.keys()
        rows = FlowStep.objects.filter(run=self.run.pk, name__in=named)
        found = dict(rows.values_list("name", "result")) if named else {}
        return {PARAMS: self.run.params, **found}

    def _handle(self, name: str) -> dict[str, Any]:
        return {"run": str(self.run.pk), "step": name, "count": self.steps[name].made}

    # --- failed jobs that an operator retries -----------------------------------------------------
    def _reopen(self) -> None:
        """Steps that have failed are active again when a job of theirs is open, or all are well."""
        if self.run.status == Status.CANCELLING:
            return
        for row in self.steps.values():
            if row.state == joins.FAILED and row.first is not None:
                step = self.run.read.steps[row.name]
                if programs.goes_on(row, step):
                    self.reopen(row)

    def reopen(self, row: FlowStep) -> bool:
        """The failed step is active again, and so is its run; False, and a note in the journal,
        when another run of its key is open."""
        if not self.reopen_run():
            if row.look_at is not None and row.look_at > self.now:
                # Not by the clock: somebody has just done something.
                self.note("not_reopened", row)
            return False
        self.write(
            row,
            state=joins.ACTIVE,
            result=None,
            ended_at=None,
            **self._times(row, self.run.read.steps[row.name]),
        )
        self.note("reopened", row, to_state=joins.ACTIVE)
        return True

    def reopen_run(self) -> bool:
        """The failed run is running again; False when another run of its key is open."""
        run = self.run
        if run.status != Status.FAILED:
            return True
        open_key = run.key_while_open
        if open_key and FlowRun.objects.filter(open_key=open_key).exists():
            return False
        try:
            with transaction.atomic():
                self.write_run(status=Status.RUNNING.value, finished_at=None, open_key=open_key)
        except IntegrityError:
            # One was started just now.
            return False
        return True

    # --- the run ----------------------------------------------------------------------------------
    def _end_run(self) -> None:
        run = self.run
        if self._active():
            return
        if run.status == Status.CANCELLING:
            self._finish(Status.CANCELLED)
            return
        if any(v in (Verdict.START, Verdict.SKIP, Verdict.WAIT) for v in self._verdicts().values()):
            # It is paused.
            return
        stands = {name: row.stands for name, row in self.steps.items()}
        has_failed = joins.has_failed(run.read, stands)
        self._finish(Status.FAILED if has_failed else Status.SUCCEEDED)

    def _finish(self, status: FlowRun.Status) -> None:
        before = self.run.status
        self.write_run(status=status.value, finished_at=self.now, open_key=None)
        self.note(
            "ended",
            from_state=before,
            to_state=status.value,
            reason=self.run.reason,
            run_ms=self.ms_since(self.run.created_at),
        )

    def _look_later(self) -> None:
        """When each step is looked at next that was looked at without a change."""
        for row in self.steps.values():
            if row.look_at is None or row.look_at > self.now:
                continue
            if row.state == joins.ACTIVE:
                # The look before may have broken.
                well = {"memo": ""} if row.memo and not row.by else {}
                self.write(row, look_at=self._next_look(row), **well)
            elif row.state == joins.FAILED:
                last = (row.ended_at or self.now) + jobs_conf.JOB_ARCHIVE_AFTER
                again = self.now + AT_FAILED
                self.write(row, look_at=again if again < last else None)
            elif row.name != self._next:
                self.write(row, look_at=None)

    def _next_look(self, row: FlowStep) -> datetime:
        if self.more:
            return self.now
        started_at = row.started_at or self.now
        if row.kind == shapes.WAIT:
            # Nobody else ends it but a person, who does so at once.
            own = self.run.read.steps[row.name].over_at(started_at)
            return min(filter(None, (own, row.deadline_at)), default=self.now + AT_FAILED)
        is_task = row.kind == shapes.TASK
        return next_look(self.now, started_at, row.deadline_at, is_task=is_task)

    def _times(self, row: FlowStep, step: Step) -> dict[str, Any]:
        """The columns of a step that is active from now on."""
        row.started_at = self.now
        row.deadline_at = self._deadline(step)
        look_at = self._next_look(row)
        times = {"started_at": self.now, "deadline_at": row.deadline_at, "look_at": look_at}
        return {**times, "memo": ""}

    def _deadline(self, step: Step) -> datetime | None:
        return None if step.within is None else self.now + timedelta(seconds=step.within)


def _counts(row: FlowStep, end: End) -> dict[str, int]:
    """How many of its many jobs have ended how; {} for one job, and where somebody has given the
    result."""
    if row.kind != shapes.JOBS or end.state not in (joins.SUCCEEDED, joins.FAILED):
        return {}
    return {name: end.result[name] for name in COUNTED if end.result[name]}


def _named(said: Mapping[str, Any]) -> str:
    path = said.get("path", "")
    return f"{said['step']}.{path}" if path else str(said["step"])
