"""Names the steps that jobs, tasks and dispatches are part of, and says where their parts are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from apps.common.admin.html import page_url
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.parts import Span, Whole
from apps.flows.models import FlowRun, FlowStep


def named(steps: Collection[int], person: Any) -> dict[int, Whole]:
    """The steps of the runs that the person may see."""
    if not person.has_perm("flows.view_flowrun"):
        return {}
    rows = FlowStep.objects.filter(pk__in=steps, run__in=FlowRun.objects.visible_to(person))
    return {
        pk: Whole(_words(name, run, flow), f"{page_url(FlowRun, run)}#step-{pk}")
        for pk, name, run, flow in rows.values_list("pk", "name", "run_id", "run__flow")
    }


def _words(step: str, run: int, flow: str) -> Message:
    if not flow:
        return _("step {step} of run {run}", step=step, run=str(run))
    return _("step {step} of run {run} of flow {flow}", step=step, run=str(run), flow=flow)


def jobs_of(step: int) -> Span | None:
    """The first and the last job of the step; None without jobs."""
    ends = FlowStep.objects.filter(pk=step).values_list("first", "last")
    return next((Span(first, last) for first, last in ends if first and last), None)


def task_of(step: int) -> Span | None:
    """The once task that the step has now; None without one."""
    tasks = FlowStep.objects.filter(pk=step).values_list("task", flat=True)
    return next((Span(task, task) for task in tasks if task), None)
