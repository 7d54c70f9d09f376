"""The kinds of bulk runs for people: their lists and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices as Choices
from django.utils.text import capfirst
from django.utils.timezone import get_current_timezone as _zone

from apps.bulk.services.targets import TARGETS
from apps.common.admin.display import duration_of, translate
from apps.dispatch.models import Dispatch, Source, Task
from apps.dispatch.rules import dispatch_filter, plan, task_filter
from apps.jobs.admin.filters import wanted_of
from apps.jobs.models import Job, JobType


@dataclass(frozen=True)
class Kind:
    """`read` makes a filter of the address of the list of these rows, and `labels` has the choices
    of those of its fields that have any."""

    read: Callable[[Mapping[str, str]], Any]
    labels: Mapping[str, type[Choices]]


def _of_tasks(source: str) -> Kind:
    return Kind(
        lambda given: task_filter.read_list(source, given, _zone()),
        {"statuses": Task.Status, "mode": Task.Mode},
    )


OF: Mapping[str, Kind] = {
    "jobs": Kind(
        wanted_of,
        {"statuses": Job.Status, "lane": JobType.Lane},
    ),
    "dispatches": Kind(
        lambda given: dispatch_filter.read(given, dispatch_filter.admin_names(_zone())),
        {"states": Dispatch.State, "source": Source},
    ),
    "once-tasks": _of_tasks(plan.ONCE),
    "rotate-tasks": _of_tasks(plan.ROTATE),
}


def named(kind: str, verb: str) -> str:
    """`Jobs · Cancel`: what a run does to which rows."""
    rows = capfirst(TARGETS[kind].model._meta.verbose_name_plural or "")
    of = TARGETS[kind].verbs
    return f"{rows} · {translate(of[verb].words) if verb in of else verb}"


def lasting(seconds: int) -> str:
    """A length of time in a few words."""
    return duration_of(1000 * seconds)
