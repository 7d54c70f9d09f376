"""Bringing the company into the database, by the services that operators use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q

from apps.common import clock
from apps.common.db import transactional
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import executors, tasks, templates
from apps.dispatch.services.executors import member_names
from taskplatform.demo.company import (
    PEOPLE,
    ROTATIONS,
    ROUND,
    TEAMS,
    TEMPLATES,
    TOMORROW,
    Inspection,
    Rotation,
    shop_of,
)
from taskplatform.demo.crew import Mishaps
from taskplatform.demo.occurrence import Occurrence
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


@transactional
def plan_rotations() -> list[RotateTask]:
    """The company and its rotations; [] when the demo has planned some before."""
    _ensure_company()
    if RotateTask.objects.filter(created_by=ACTOR).exists():
        return []
    return [_plan_rotation(rotation) for rotation in ROTATIONS]


def work_at_hand(*, seconds: float = 0) -> list[Occurrence]:
    """The demo's due occurrences whose quotas can still be met now, in the order of planning.

    Left out are those too old for executors to look back to, those of a rotation that will be
    gone so many seconds later, and those that somebody gave back or lost and may not have again
    yet.
    """
    now = clock.now()
    return [
        occurrence
        for occurrence in [*_once_due(now), *_rotations_due(now, now + timedelta(seconds=seconds))]
        if occurrence.at > now - timedelta(hours=conf.DISPATCH_WINDOW_HOURS) + _MARGIN
        and not progress_of([occurrence]).is_complete
        and not _is_kept_from_somebody(occurrence, now)
    ]


def _once_due(now: datetime) -> list[Occurrence]:
    oldest = now - timedelta(hours=conf.DISPATCH_WINDOW_HOURS)
    due = OnceTask.objects.filter(
        created_by=ACTOR, status=OnceTask.Status.ACTIVE, start_at__gt=oldest, start_at__lte=now
    )
    return [
        Occurrence(task, task.start_at) for task in due.select_related("executor").order_by("pk")
    ]


def _rotations_due(now: datetime, later: datetime) -> list[Occurrence]:
    """What is due now and will still be later."""
    active = RotateTask.objects.filter(created_by=ACTOR, status=RotateTask.Status.ACTIVE)
    return [
        Occurrence(task, at)
        for task in active.select_related("executor").order_by("pk")
        for at in task.due(now).occurrences
        if at in task.due(later).occurrences
    ]


def _is_kept_from_somebody(occurrence: Occurrence, now: datetime) -> bool:
    dispatches = Dispatch.objects.of(*occurrence.identity)
    cooling_since = now - timedelta(seconds=occurrence.task.lease_seconds)
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


def mishaps_of(work: Sequence[Occurrence]) -> Mishaps:
    """What goes wrong first with those tasks that nobody has had yet."""
    planned = {each.title: each.mishaps for each in (*ROUND, *ROTATIONS)}
    tasks_at_work = {(each.task.source, each.task.pk): each.task for each in work}
    return Mishaps(
        {
            (source, pk): planned.get(task.title.partition(", ")[0], ())
            for (source, pk), task in tasks_at_work.items()
            if not Dispatch.objects.filter(source=source, task=pk).exists()
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
        params={"shop": shop, **inspection.params},
        start_at=clock.now() + later,
        **_terms_of(inspection),
    )


def _plan_rotation(rotation: Rotation) -> RotateTask:
    start_at = clock.now().replace(second=0, microsecond=0) - rotation.since
    rule = dict(rotation.rule)
    if "every_days" in rule:
        rule.setdefault("at", f"{start_at.astimezone(ZoneInfo(rotation.time_zone)):%H:%M}")
    return tasks.create_task(
        RotateTask,
        actor=ACTOR,
        title=rotation.title,
        executor=executors.find(rotation.executor),
        params=dict(rotation.params),
        start_at=start_at,
        rule=rule,
        time_zone=rotation.time_zone,
        misfire=rotation.misfire,
        misfire_limit=rotation.misfire_limit,
        status=rotation.status,
        **_terms_of(rotation),
    )


def _terms_of(inspection: Inspection) -> dict[str, Any]:
    return {
        "template": templates.find_usable(inspection.template),
        "mode": inspection.mode,
        "dispatch_times": inspection.quota,
        "priority": inspection.priority,
        "on_failure": inspection.on_failure,
    }
