"""Writes the company to the database, by the services that operators use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from apps.common import clock
from apps.common.db import transactional
from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import executors, tasks, templates
from taskplatform.demo.company import (
    ACTOR,
    GROUPS,
    PEOPLE,
    ROTATIONS,
    ROUND,
    TEMPLATES,
    TOMORROW,
    shop_of,
)


@transactional
def plan(*, fresh: bool = False) -> tuple[list[OnceTask], list[RotateTask]]:
    """The company, its first round and its rotations, where the demo has not planned them before,
    with `fresh` another round; what is there stays as operators have changed it."""
    ensure_company()
    is_planned = OnceTask.objects.filter(created_by=ACTOR).exists()
    rotates = RotateTask.objects.filter(created_by=ACTOR).exists()
    return (
        plan_round() if fresh or not is_planned else [],
        [] if rotates else list(map(_rotate, ROTATIONS)),
    )


@transactional
def plan_round() -> list[OnceTask]:
    """Another round of the next shop."""
    ensure_company()
    first = OnceTask.objects.filter(created_by=ACTOR, title__startswith=f"{ROUND[0]['title']}, ")
    shop = shop_of(first.count() + 1)
    now = clock.now()
    planned = [_inspect(each, shop, start_at=now) for each in ROUND]
    ahead = OnceTask.objects.not_deleted().filter(created_by=ACTOR, start_at__gt=now)
    if not ahead.exists():
        planned.append(_inspect(TOMORROW, shop, start_at=now + timedelta(days=1)))
    return planned


def ensure_company(
    groups: Mapping[str, Mapping[str, Any]] = GROUPS,
    of_params: Mapping[str, dict[str, Any]] = TEMPLATES,
) -> None:
    """Create the people, these groups of them and these templates, as far as they are missing."""
    titles = {**PEOPLE, **{name: group["title"] for name, group in groups.items()}}
    known = set(Executor.objects.values_list("name", flat=True).filter(name__in=titles))
    for name, title in titles.items():
        if name not in known:
            executor = executors.create_executor(name=name, title=title, actor=ACTOR)
            if name in groups:
                members = groups[name]["members"]
                executors.change_members(group=executor, add=members, actor=ACTOR)
    for name, schema in of_params.items():
        if not Template.objects.filter(name=name).exists():
            templates.put_template(name=name, schema=schema, actor=ACTOR)


def _inspect(inspection: Mapping[str, Any], shop: str, **fields: Any) -> Any:
    title = f"{inspection['title']}, {shop}"
    params = {"shop": shop, **inspection["params"]}
    return _create(OnceTask, {**inspection, "title": title, "params": params, **fields})


def _rotate(rotation: Mapping[str, Any]) -> Any:
    fields = dict(rotation)
    since = timedelta(hours=fields.pop("since_hours"))
    start_at = clock.now().replace(second=0, microsecond=0) - since
    if "every_days" in fields["rule"]:
        at = f"{start_at.astimezone(ZoneInfo(fields['time_zone'])):%H:%M}"
        fields["rule"] = {"at": at, **fields["rule"]}
    return _create(RotateTask, {**fields, "start_at": start_at})


def _create(model: Any, fields: dict[str, Any]) -> Any:
    fields.pop("mishaps", None)
    fields["executor"] = executors.find(fields["executor"])
    fields["template"] = templates.find_usable(fields["template"])
    return tasks.create_task(model, actor=ACTOR, **fields)
