"""Writes the company to the database, by the services that operators use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from apps.common import clock
from apps.common.db import transactional
from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import executors, tasks, templates
from apps.dispatch.services.executors import member_names
from taskplatform.demo.company import (
    ACTOR,
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


def quota_of_round() -> int:
    """How many hand-outs one round takes, as the groups are now."""
    groups = {team.name: len(member_names(executors.find(team.name))) for team in TEAMS}
    return sum(
        groups[inspection.executor] if inspection.quota is None else inspection.quota
        for inspection in ROUND
    )


def _ensure_company() -> None:
    """Create what is missing; what is there stays as operators have changed it."""
    names = [*PEOPLE, *(team.name for team in TEAMS)]
    known = set(Executor.objects.values_list("name", flat=True).filter(name__in=names))
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


def _plan_round() -> list[OnceTask]:
    first = OnceTask.objects.filter(created_by=ACTOR, title__startswith=f"{ROUND[0].title}, ")
    shop = shop_of(first.count() + 1)
    planned = [_plan(inspection, shop) for inspection in ROUND]
    ahead = OnceTask.objects.not_deleted().filter(created_by=ACTOR, start_at__gt=clock.now())
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
        **_fields_of(inspection),
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
        **_fields_of(rotation),
    )


def _fields_of(inspection: Inspection) -> dict[str, Any]:
    return {
        "template": templates.find_usable(inspection.template),
        "mode": inspection.mode,
        "dispatch_times": inspection.quota,
        "priority": inspection.priority,
        "on_failure": inspection.on_failure,
    }
