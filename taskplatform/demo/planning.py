"""Bringing the company into the database, by the services that operators use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from apps.common import clock
from apps.common.conf import conf
from apps.common.db import transactional
from apps.dispatch.models import Dispatch, Executor, OnceTask, Template
from apps.dispatch.services import executors, tasks, templates
from apps.dispatch.services.executors import member_names
from taskplatform.demo.company import (
    PEOPLE,
    ROUND,
    TEAMS,
    TEMPLATES,
    TOMORROW,
    Inspection,
    shop_of,
)
from taskplatform.demo.crew import Mishaps
from taskplatform.demo.outcome import progress_of

# Who the demo's tasks were planned by; nothing else tells them from other tasks.
ACTOR = "demo"

# Tasks must not leave the window of the executors while these are at work.
_MARGIN = timedelta(hours=1)


@transactional
def plan_first_round() -> list[OnceTask]:
    """The company and its first round; [] when the demo has planned one before."""
    _ensure_company()
    return [] if OnceTask.objects.filter(created_by=ACTOR).exists() else _plan_round()


@transactional
def plan_round() -> list[OnceTask]:
    """The company, where parts of it are missing, and another round."""
    _ensure_company()
    return _plan_round()


def tasks_at_hand() -> list[OnceTask]:
    """The demo's due tasks whose quotas can still be met now, in the order of planning.

    Left out are those too old for executors to look back to, and those that somebody gave back
    or lost and may not have again yet.
    """
    now = clock.now()
    oldest = now - timedelta(hours=conf.DISPATCH_WINDOW_HOURS) + _MARGIN
    due = OnceTask.objects.filter(
        created_by=ACTOR, status=OnceTask.Status.ACTIVE, start_at__gt=oldest, start_at__lte=now
    )
    return [
        task
        for task in due.select_related("executor").order_by("pk")
        if not progress_of([task]).is_complete and not _is_kept_from_somebody(task, now)
    ]


def _is_kept_from_somebody(task: OnceTask, now: datetime) -> bool:
    dispatches = Dispatch.objects.of(task.source, task.pk, task.occurrence)
    cooling_since = now - timedelta(seconds=task.lease_seconds)
    return dispatches.filter(
        Q(state=Dispatch.State.CANCELLED) | Q(holds_stock=False, finished_at__gt=cooling_since)
    ).exists()


def quota_of_round() -> int:
    """How many hand-outs one round asks for, as the groups are now."""
    groups = {team.name: len(member_names(executors.find(team.name))) for team in TEAMS}
    return sum(
        groups[inspection.executor] if inspection.quota is None else inspection.quota
        for inspection in ROUND
    )


def mishaps_of(tasks: Sequence[OnceTask]) -> Mishaps:
    """What goes wrong first at those tasks that nobody has had yet."""
    planned = {inspection.title: inspection.mishaps for inspection in ROUND}
    return Mishaps(
        {
            task.pk: planned.get(task.title.partition(", ")[0], ())
            for task in tasks
            if not Dispatch.objects.of(task.source, task.pk, task.occurrence).exists()
        }
    )


def _ensure_company() -> None:
    """Make what is missing and leave alone what is there, however it was changed."""
    known = set(Executor.objects.values_list("name", flat=True).filter(name__in=_names()))
    for name, title in PEOPLE.items():
        if name not in known:
            executors.create_executor(name=name, title=title, actor=ACTOR)
    for team in TEAMS:
        if team.name not in known:
            group = executors.create_executor(name=team.name, title=team.title, actor=ACTOR)
            executors.change_members(group=group, add=team.members, actor=ACTOR)
    for name, schema in TEMPLATES.items():
        if not Template.objects.filter(name=name).exists():
            templates.put_template(name=name, schema=schema, actor=ACTOR)


def _names() -> list[str]:
    return [*PEOPLE, *(team.name for team in TEAMS)]


def _plan_round() -> list[OnceTask]:
    first = OnceTask.objects.filter(created_by=ACTOR, title__startswith=f"{ROUND[0].title}, ")
    shop = shop_of(first.count() + 1)
    planned = [_plan(inspection, shop) for inspection in ROUND]
    ahead = OnceTask.objects.standing().filter(created_by=ACTOR, start_at__gt=clock.now())
    if not ahead.exists():
        planned.append(_plan(TOMORROW, shop, later=timedelta(days=1)))
    return planned


def _plan(inspection: Inspection, shop: str, *, later: timedelta = timedelta(0)) -> OnceTask:
    return tasks.create_task(
        OnceTask,
        actor=ACTOR,
        title=f"{inspection.title}, {shop}",
        executor=executors.find(inspection.executor),
        template=templates.find_usable(inspection.template),
        params={"shop": shop, **inspection.params},
        start_at=clock.now() + later,
        mode=inspection.mode,
        dispatch_times=inspection.quota,
        priority=inspection.priority,
        on_failure=inspection.on_failure,
    )
