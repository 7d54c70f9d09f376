"""What the shop lets workers do."""

from __future__ import annotations

from typing import Any

from apps.jobs.handlers import Fail
from apps.jobs.tasks_api import TaskContext, task


@task
def add(first: int, second: int = 1) -> int:
    return first + second


@task(priority=7, queue_name="default")
async def greet(name: str) -> str:
    return f"Hello {name}"


@task(queue_name="slow")
def render() -> None:
    """Takes long."""


@task(takes_context=True)
def tell(context: TaskContext) -> list[Any]:
    return [context.attempt, context.task_result.id, str(context.task_result.status)]


@task
def divide(by: int) -> float:
    return 1 / by


@task
def refuse() -> None:
    raise Fail("no such order")


@task
def thing() -> object:
    return object()


def plain() -> None:
    """No task."""
