"""Rows with speaking defaults, made by the services that operators use."""

from __future__ import annotations

from typing import Any

from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import executors, tasks, templates

OPERATOR = "admin:olga"


def user(name: str = "uid_alice", **fields: Any) -> Executor:
    return executors.create_executor(name=name, actor=OPERATOR, **fields)


def group(name: str = "gid_sales", members: list[str] | None = None, **fields: Any) -> Executor:
    made = executors.create_executor(name=name, actor=OPERATOR, **fields)
    if members:
        executors.change_members(group=made, add=members, actor=OPERATOR)
    return made


def member(name: str) -> Executor:
    """A user executor that a group has brought along."""
    return Executor.objects.get(name=name)


def template(name: str = "photo-check", schema: dict[str, Any] | None = None) -> Template:
    return templates.put_template(
        name=name,
        schema=schema
        or {
            "type": "object",
            "properties": {"shop": {"type": "string"}, "photos": {"type": "integer"}},
            "required": ["shop"],
            "additionalProperties": False,
        },
        actor=OPERATOR,
    )


def once_task(executor: Executor, title: str = "Check the shelf", **fields: Any) -> OnceTask:
    return tasks.create_task(OnceTask, actor=OPERATOR, title=title, executor=executor, **fields)


def rotation(executor: Executor, title: str = "Check the till", **fields: Any) -> RotateTask:
    fields = {"rule": {"every_minutes": 30}, **fields}
    return tasks.create_task(RotateTask, actor=OPERATOR, title=title, executor=executor, **fields)
