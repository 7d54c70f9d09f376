"""The progress of runs: how much of each step is done, and what is open or has failed of it. Writes
nothing; the statements do not grow with jobs and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count
from django.db.models.fields.json import KT
from django.db.models.functions import Left

from apps.common import clock
from apps.common.db import fetch_each, placeholders, table
from apps.common.texts import begin_of
from apps.dispatch.models import ArchivedDispatch, Dispatch, OnceTask
from apps.dispatch.rules import policy
from apps.dispatch.services.availability import read_availability
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.rules.definition import Step
from apps.flows.services import programs
from apps.flows.services.locked_run import BEGUN
from apps.jobs.models import AnyJob, ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry, Source

# Jobs and hand-outs that are shown of a step, and steps of which any are.
MAX_PARTS, MAX_STEPS = 5, 20
MAX_ERROR, MAX_ITEM = 200, 60
_FAILED = (policy.FAILED, policy.EXPIRED)
# Entries of begun steps that are read, the first ones.
_MAX_BEGUN = 1_000


def first_begun(run: FlowRun) -> dict[str, datetime]:
    """When each step of the run began first; the rows have when their last try did."""
    entries = JournalEntry.objects.timeline(Source.FLOW, run.pk).filter(event=BEGUN)
    found: dict[str, datetime] = {}
    for data, at in entries.values_list("data", "at")[:_MAX_BEGUN]:
        found.setdefault((data or {}).get("step", ""), at)
    return found


@dataclass
class Parts:
    """The jobs or hand-outs of a step: how many ended how, and how many there are to be, None while
    nobody knows. `held` are running or handed out; the rest waits."""

    total: int | None
    good: int = 0
    failed: int = 0
    cancelled: int = 0
    held: int = 0

    @property
    def done(self) -> int:
        return self.good + self.failed + self.cancelled

    @property
    def waiting(self) -> int:
        return max(0, (self.total or 0) - self.done - self.held)


@dataclass
class StepProgress:
    """The progress of a step. `jobs` and `dispatches` are the first of those that have failed, then
    of those that are open; `task` has its `standing`."""

    row: FlowStep
    step: Step
    parts: Parts
    task: Any = None
    jobs: list[AnyJob] = field(default_factory=list)
    dispatches: list[Any] = field(default_factory=list)

    @property
    def failed_jobs(self) -> int:
        """How many of its jobs have failed."""
        return self.parts.failed if self.row.first is not None else 0

    @property
    def is_shown_in_parts(self) -> bool:
        """Whether single jobs and hand-outs of it matter to whoever looks."""
        return self.row.state in (joins.ACTIVE, joins.FAILED)

    @property
    def holds_up(self) -> bool:
        """Whether the run waits for it or fails by it: the failure of what may fail hinders
        nothing."""
        if self.row.state == joins.FAILED:
            return not self.step.is_optional
        return bool(self.row.state == joins.ACTIVE)


class Totals(NamedTuple):
    """The parts of all steps, and those that ended well; `is_exact` unless some steps do not know
    yet how many they have."""

    done: int
    total: int
    is_exact: bool


def read_steps(run: FlowRun) -> dict[str, FlowStep]:
    """The rows of the steps in the order of the definition, without their results."""
    rows = {row.name: row for row in FlowStep.objects.filter(run=run.pk).defer("result")}
    return {said["name"]: rows[said["name"]] for said in run.definition["steps"]}


def read_progress(run: FlowRun, visible: Any) -> dict[str, StepProgress]:
    """The progress of each step, in the order of the definition; `visible` are the dispatches that
    may be shown."""
    rows, steps = read_steps(run), run.read.steps
    found = {
        name: StepProgress(row, steps[name], Parts(expected(steps[name], row)))
        for name, row in rows.items()
    }
    _count_jobs(run, found.values())
    _count_dispatches(found.values())
    shown = [each for each in found.values() if each.is_shown_in_parts][:MAX_STEPS]
    _read_jobs(shown)
    _read_dispatches(shown, visible)
    return found


def expected(step: Step, row: FlowStep) -> int | None:
    """How many jobs or hand-outs the step has or is to have; None while nobody knows."""
    if step.kind == shapes.TASK:
        return step.quota
    if step.kind != shapes.JOBS or row.first is not None:
        return row.made or 1
    each = step.said["each"]
    if row.state == joins.BLOCKED and not isinstance(each, list):
        return None
    return row.made if row.state != joins.BLOCKED else len(each)


def totals(found: Mapping[str, StepProgress]) -> Totals:
    """The parts of all steps but those that are left out."""
    done = total = 0
    is_exact = True
    for each in found.values():
        if each.row.state == joins.SKIPPED:
            continue
        known = each.parts.total
        is_exact = is_exact and known is not None
        ended = each.row.state == joins.SUCCEEDED
        own = max(1 if known is None else known, each.parts.done)
        total += own
        done += own if ended else min(own, each.parts.good)
    return Totals(done, total, is_exact)


# --- jobs -----------------------------------------------------------------------------------------
def _count_jobs(run: FlowRun, found: Any) -> None:
    """Count the jobs of each step; steps that have succeeded have the counts in their results."""
    of_jobs = {each.row.pk: each for each in found if each.row.first is not None}
    well = [each for each in of_jobs.values() if each.row.state == joins.SUCCEEDED]
    many = [each.row.pk for each in well if each.row.kind == shapes.JOBS]
    names = (t.SUCCEEDED, t.FAILED, t.CANCELLED)
    kept = FlowStep.objects.filter(pk__in=many).values_list(
        "pk", *(KT(f"result__{name}") for name in names)
    )
    said = {pk: Counter(dict(zip(names, map(_whole, rest), strict=True))) for pk, *rest in kept}
    others = [each.row for each in of_jobs.values() if each.row.state != joins.SUCCEEDED]
    counted = programs.counts_of_each(others)
    for pk, each in of_jobs.items():
        counts = said.get(pk) or counted.get(pk) or Counter({t.SUCCEEDED: each.row.made})
        parts = each.parts
        parts.good, parts.failed = counts[t.SUCCEEDED], counts[t.FAILED]
        parts.cancelled, parts.held = counts[t.CANCELLED], counts[t.RUNNING]


def _whole(text: Any) -> int:
    return int(text or 0)


def _read_jobs(shown: Sequence[StepProgress]) -> None:
    """The first failed jobs of the steps, then running ones, then those that wait."""
    numbers = sorted(_numbers(shown), key=lambda each: each[1:])
    kept: dict[int, list[int]] = {}
    for step, _place, number in numbers:
        of_step = kept.setdefault(step, [])
        if number not in of_step and len(of_step) < MAX_PARTS:
            of_step.append(number)
    wanted = [number for of_step in kept.values() for number in of_step]
    rows: dict[int, AnyJob] = {}
    for model in (ArchivedJob, Job) if wanted else ():
        found: Any = model._default_manager.filter(pk__in=wanted)
        found = found.defer("context", "checkpoint", "result", "memo")
        found = found.annotate(
            error=Left("memo", MAX_ERROR + 1), item=Left(KT("context__item"), MAX_ITEM + 1)
        )
        for row in found:
            row.error, row.item = (
                begin_of(row.error, MAX_ERROR),
                row.item and begin_of(row.item, MAX_ITEM),
            )
            rows[row.pk] = row
    for each in shown:
        each.jobs = [rows[number] for number in kept.get(each.row.pk, ()) if number in rows]


def _numbers(shown: Sequence[StepProgress]) -> Iterator[tuple[int, int, int]]:
    """Choose some jobs of each step: its number, the place of their status, their numbers."""
    groups = ((t.FAILED,), (t.RUNNING,), t.WAITING)

    def selects() -> Iterator[tuple[str, list[Any]]]:
        for each in shown:
            row, parts = each.row, each.parts
            if row.first is None:
                continue
            counts = (parts.failed, parts.held, parts.waiting)
            for place, (statuses, count) in enumerate(zip(groups, counts, strict=True)):
                for model in (Job, ArchivedJob) if place == 0 else (Job,):
                    if count:
                        yield (
                            f"SELECT part_of, {place} AS place, id FROM {table(model)} "
                            "WHERE id BETWEEN %s AND %s AND part_of = %s "
                            f"AND status IN ({placeholders(len(statuses))}) "
                            f"ORDER BY id LIMIT {MAX_PARTS}",
                            [row.first, row.last, row.pk, *statuses],
                        )

    yield from fetch_each(selects())


# --- people ---------------------------------------------------------------------------------------
def _count_dispatches(found: Any) -> None:
    of_tasks = {each.row.task: each for each in found if each.row.task is not None}
    if not of_tasks:
        return
    counted: dict[int, Counter[str]] = {}
    for model in (ArchivedDispatch, Dispatch):
        rows = _of_tasks(model, of_tasks).values_list("task", "state").annotate(Count("pk"))
        for task, state, count in rows.order_by():
            counted.setdefault(task, Counter())[state] += count
    tasks = list(OnceTask.objects.filter(pk__in=of_tasks).defer("params"))
    read_availability(tasks)
    for task in tasks:
        of_tasks[task.pk].task = task
    for number, each in of_tasks.items():
        counts, parts = counted.get(number, Counter[str]()), each.parts
        parts.good, parts.held = counts[policy.SUCCEEDED], counts[policy.OPEN]
        parts.failed = sum(counts[state] for state in _FAILED)
        if parts.total is None and each.task is not None:
            parts.total = each.task.availability.quota


def _of_tasks(model: Any, numbers: Any) -> Any:
    return model._default_manager.filter(source=OnceTask.source, task__in=[*numbers])


def _read_dispatches(shown: Sequence[StepProgress], visible: Any) -> None:
    """The first open hand-outs of the steps, then those that have failed."""

    def selects() -> Iterator[tuple[str, list[Any]]]:
        for each in shown:
            if each.row.task is not None:
                for states in ((policy.OPEN,), _FAILED):
                    yield (
                        f"SELECT id FROM {table(Dispatch)} WHERE source = %s AND task = %s "
                        f"AND state IN ({placeholders(len(states))}) ORDER BY id DESC "
                        f"LIMIT {MAX_PARTS}",
                        [OnceTask.source.value, each.row.task, *states],
                    )

    numbers = [number for (number,) in fetch_each(selects())]
    if not numbers:
        return
    rows = visible.filter(pk__in=numbers).select_related("executor").order_by("pk")
    by_task: dict[int, list[Any]] = {}
    for row in rows.defer("params", "result"):
        by_task.setdefault(row.task, []).append(row)
    for each in shown:
        own = sorted(by_task.get(each.row.task or 0, ()), key=lambda row: not row.is_open)
        each.dispatches = own[:MAX_PARTS]


# --- time -----------------------------------------------------------------------------------------
def lasted(run: FlowRun) -> timedelta:
    """How long the run has lasted, to its end or to now."""
    until: datetime = run.finished_at or clock.now()
    return until - run.created_at
