"""The figures of flows: starting many jobs, going on when the last has ended, what that costs the
jobs of a step, runs that wait, and the page of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.core.management.base import CommandError
from django.urls import reverse

from apps.common import clock
from apps.common.db import execute, table, transactional
from apps.dispatch.models import OnceTask
from apps.dispatch.services import executors
from apps.flows import sweeps
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules.looks import LONGEST_OF_TASKS
from apps.flows.services import control, ends
from apps.flows.services.advance import advance
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.services import parts
from apps.jobs.services.hold import hold
from apps.jobs.services.submit import MAX_AT_ONCE, Submission, submit_many
from tests.benchmark import jobs, pages
from tests.benchmark.backlog import BATCH, WORKER, cycle, ensure_types, finish, seconds_of
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median

MANY = 10_000
# A list and a report, and two steps between that can go on at the same time.
DIAMOND = {
    "steps": [
        {"name": "list", "kind": "job", "type": "noop"},
        {"name": "left", "kind": "job", "type": "noop", "needs": ["list"]},
        {"name": "right", "kind": "job", "type": "noop", "needs": ["list"]},
        {"name": "report", "kind": "job", "type": "noop", "needs": ["left", "right"]},
    ]
}


def begin_many(run: RunOptions) -> Iterator[Figure]:
    """A run with a step of 10,000 jobs, from its start until they are committed, in turn with as
    many jobs that are submitted together."""
    ensure_types()
    alone = [Submission("noop", {"item": n}) for n in range(MANY)]
    ours, plain = [], []
    for _ in range(4 if run.quick else 10):
        plain.append(seconds_of(lambda: _together(alone)))
        _empty()
        ours.append(seconds_of(lambda: _many(MANY)))
        _empty()
    # The first round fills caches.
    took, bare = median(ours[1:]), median(plain[1:])
    yield figure(f"start of a step of {MANY:,} jobs", took, "s", at_most=0.5)
    yield figure("the same, beside these jobs alone", took, "s", baseline=bare, at_most=1.5)


def go_on(run: RunOptions) -> Iterator[Figure]:
    """From the report of the last job of a step until the job of the next one is there."""
    ensure_types()
    waits = []
    for _ in range(15 if run.quick else 50):
        _many(BATCH, then=True)
        held = hold(holder=WORKER, types=["noop"], limit=BATCH)
        finish(held[1:])
        with _at_once():
            begun = time.perf_counter()
            finish(held[:1])
            waits.append(time.perf_counter() - begun)
        if Job.objects.filter(status="ready").count() != 1:
            raise CommandError("The next step has not begun.")
        _empty()
    yield figure("last end to next step, median", 1000 * median(waits), "ms", at_most=50)


def hooks(run: RunOptions) -> Iterator[Figure]:
    """Of the time in which 10,000 jobs of one step are held and settled, that of their hooks."""
    ensure_types()
    shares, longest = [], []
    for _ in range(3 if run.quick else 9):
        _many(MANY)
        spent: list[float] = []
        # The message that follows the last of them is not for the jobs.
        with _heard_by(_timed(ends.concerned, spent)):
            whole = seconds_of(lambda: cycle(["noop"], limit=MANY))
        if len(spent) < MANY // BATCH:
            raise CommandError(f"{MANY:,} jobs had {len(spent)} hooks.")
        shares.append(100 * sum(spent) / whole)
        longest.append(1000 * max(spent))
        _empty()
    yield figure(f"hooks of {MANY:,} jobs, of their time", median(shares), "%", at_most=3)
    yield figure("the longest of the hooks", median(longest), "ms", at_most=50)


def diamond(run: RunOptions) -> Iterator[Figure]:
    """Four jobs of four steps, from the start of the run to its end, in one process; in turn with
    four jobs that are submitted and worked off in the same order."""
    ensure_types()
    ours, plain = [], []
    with _at_once():
        for _ in range(30 if run.quick else 100):
            plain.append(seconds_of(_four_alone))
            begun = time.perf_counter()
            made = start("", definition=DIAMOND)
            cycle(["noop"])
            ours.append(time.perf_counter() - begun)
            if FlowRun.objects.get(pk=made.id).status != FlowRun.Status.SUCCEEDED:
                raise CommandError("The diamond has not come to its end.")
    _empty()
    took, bare = 1000 * median(ours), 1000 * median(plain)
    yield figure("diamond of 4 jobs, start to end, median", took, "ms", at_most=30)
    yield figure("the same, beside its jobs alone", took, "ms", baseline=bare, at_most=4)


def waiting(run: RunOptions) -> Iterator[Figure]:
    """What the sweep takes of a core for 10,000 runs that have waited long for people."""
    ensure_types()
    count = 500 if run.quick else MANY
    staff = executors.create_executor(name="gid_benchmark", title="Staff", actor="benchmark")
    ann = executors.create_executor(name="uid_benchmark", title="Ann", actor="benchmark")
    executors.change_members(group=staff, add=[ann.name], actor="benchmark")
    definition = {"steps": [{"name": "look", "kind": "task", "executor": staff.name}]}
    for _ in range(count):
        start("", definition=definition)
    long_ago = clock.now() - timedelta(hours=2)
    FlowStep.objects.update(started_at=long_ago, look_at=long_ago)
    until = clock.now() + timedelta(hours=1)
    seconds = 0.0
    while FlowStep.objects.filter(look_at__lte=until - timedelta(hours=1)).exists():
        seconds += seconds_of(lambda: sweeps.look_at_due(until=until))
    # Each is looked at once in this time.
    share = 100 * seconds / count * MANY / LONGEST_OF_TASKS.total_seconds()
    OnceTask.objects.all().delete()
    _empty()
    yield figure(f"{MANY:,} runs that wait for people", share, "% of a core", at_most=5)


def page(run: RunOptions) -> Iterator[Figure]:
    """The page of a run whose step of 10,000 jobs goes on, with half of them done."""
    ensure_types()
    number = _many(MANY)
    for _ in range(MANY // 2 // BATCH):
        finish(hold(holder=WORKER, types=["noop"], limit=BATCH))
    name = f"page of a run with {MANY:,} jobs"
    shown = pages.Page(name, reverse("admin:flows_flowrun_change", args=[number]))
    with pages.open_doors():
        cost = pages.Visitor().cost(shown, times=3 if run.quick else 9)
    _empty()
    yield figure(name, cost.ms, "ms", at_most=200)


# --- parts ----------------------------------------------------------------------------------------
def _many(count: int, *, then: bool = False) -> int:
    """A run whose step of so many jobs has begun."""
    steps: list[dict[str, Any]] = [
        # What comes with a run has 10,000 items and keys in all, a result can be a list of as many.
        {"name": "gate", "kind": "wait"},
        {"name": "many", "kind": "jobs", "type": "noop", "each": {"$from": "gate"}},
    ]
    if then:
        steps.append({"name": "last", "kind": "job", "type": "noop", "needs": ["many"]})
    number = start("", definition={"steps": steps}).id
    run = FlowRun.objects.get(pk=number)
    control.finish(run=run, step="gate", actor="benchmark", result=[*range(count)])
    return number


@transactional
def _together(alone: Sequence[Submission]) -> None:
    for start_ in range(0, len(alone), MAX_AT_ONCE):
        submit_many(alone[start_ : start_ + MAX_AT_ONCE])


def _four_alone() -> None:
    for count in (1, 2, 1):
        submit_many([Submission("noop")] * count)
        cycle(["noop"])


def _empty() -> None:
    for model in (FlowStep, FlowRun, Job):
        execute(f"DELETE FROM {table(model)}")


def _timed(hear: Callable[[Collection[int]], object], spent: list[float]) -> Any:
    def timed(parts: Collection[int]) -> None:
        begun = time.perf_counter()
        hear(parts)
        spent.append(time.perf_counter() - begun)

    return timed


@contextmanager
def _at_once() -> Iterator[None]:
    """Runs are brought on where the hook finds that they may go on, and not by a message."""

    def hear(parts: Collection[int]) -> None:
        for run in ends.concerned(parts):
            advance(run)

    with _heard_by(hear):
        yield


@contextmanager
def _heard_by(hear: Callable[[Collection[int]], None]) -> Iterator[None]:
    with patch.object(parts.parts, "_listeners", [hear]):
        yield


PARTS = [
    Part("start", begin_many, on="both"),
    Part("next", go_on, on="both"),
    Part("hooks", hooks, on="both"),
    Part("diamond", diamond, on="both"),
    Part("waiting", waiting, on="both"),
    Part("page", page, on="both"),
    Part("plain", jobs.hold_and_settle),
]
