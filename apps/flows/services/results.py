"""Results of the jobs of a step, page by page: of the handle that `$results` puts into a context.

for number, status, result in results_of(context["photos"]):
    …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.flows.models import FlowRun, FlowStep
from apps.flows.models.reach import has_jobs_within
from apps.flows.rules import shapes
from apps.flows.services.programs import Ended, page_of
from apps.flows.services.start import find_run, find_step
from apps.jobs.models import Bounds


def find_step_with_results(number: int, name: str, *, bounds: Bounds) -> FlowStep:
    """A step of a run within the bounds; also one whose jobs are, or whose handle is given to such
    jobs: who works on these has it from the author of the flow. NotFound as for runs."""
    run = FlowRun.objects.filter(pk=number).first() if 0 < number < 2**63 else None
    step = run.read.steps.get(name) if run is not None else None
    if run is not None and step is not None and step.kind in (shapes.JOB, shapes.JOBS):
        if any(has_jobs_within(each, bounds) for each in (step.target, *run.read.readers_of(name))):
            return find_step(run, name)
    return find_step(find_run(number, bounds=bounds), name)


def results_of(handle: Mapping[str, Any]) -> Iterator[Ended]:
    """All jobs of the step in their order, each with its status and result; up to 500 are read at
    once.

    NotFound when the run has been forgotten.
    """
    row = find_step(find_run(int(handle["run"])), handle["step"])
    after, more = 0, True
    while more:
        page, more = page_of(row, after=after)
        yield from page
        after = page[-1].id if page else after
