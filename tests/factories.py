"""Rows with speaking defaults, made by the services that operators use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from apps.common import clock
from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import archive, executors, tasks, templates
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services import types
from apps.jobs.services.submit import submit
from apps.schedules.models import Schedule
from apps.schedules.services import schedules

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
    """Its end may come before it is ever due, as an edit can make it."""
    fields = {"rule": {"every_minutes": 30}, **fields}
    end = fields.pop("end_at", None)
    made = tasks.create_task(RotateTask, actor=OPERATOR, title=title, executor=executor, **fields)
    if end is not None:
        RotateTask.objects.filter(pk=made.pk).update(end_at=end)
        made.end_at = end
    return made


def archived_task(source: str, executor: Executor) -> int:
    """The number of a task in the archive, which was over a year ago."""
    then = {"start_at": clock.now() - timedelta(days=400), "end_at": clock.now() - timedelta(365)}
    task: Any
    if source == "once":
        task = once_task(executor, "Check the old shelf", **then)
    else:
        task = rotation(executor, "Check the old till", **then)
    assert archive.move_tasks(type(task), [task.pk], clock.now() + timedelta(seconds=1))
    return int(task.pk)


def job_type(name: str = "mail", **settings: Any) -> JobType:
    """One that people make; one of the platform itself as it makes it."""
    if entry := registry.find(name) if registry.is_system(name) else None:
        types.ensure_types([name], {name: entry.settings})
        return JobType.objects.get(name=name)
    return types.create_type(name=name, actor=OPERATOR, **settings)


def job(type_name: str = "mail", *, into: dict[str, Any] | None = None, **fields: Any) -> Job:
    """A submitted job, whose type is made if need be; `into` are columns set without a service,
    for states that only workers bring about."""
    if not JobType.objects.filter(name=type_name).exists():
        job_type(type_name)
    number = submit(type_name, **fields).id
    if into:
        Job.objects.filter(pk=number).update(**into)
    return Job.objects.get(pk=number)


def running_job(type_name: str = "mail", *, host: str = "host-a", **fields: Any) -> Job:
    """A job that a worker of that host has just held for the first time."""
    now = clock.now()
    held = {
        "status": Job.Status.RUNNING,
        "attempts": 1,
        "holds": 1,
        "held_at": now,
        "started_at": now,
        "lease_token": "t" * 32,
        "lease_until": now + timedelta(seconds=30),
        "hard_end_at": now + timedelta(seconds=900),
        "worker": f"{host}:1",
        "host": host,
        "version": 2,
    }
    return job(type_name, into=held, **fields)


def worker(name: str = "host-a:1", *, types: list[str] | None = None, **fields: Any) -> Worker:
    """A live worker; its host is what stands before the colon."""
    now = clock.now()
    host = name.partition(":")[0]
    defaults = {"host": host, "started_at": now, "last_heartbeat_at": now, "lanes": ["fast"]}
    return Worker.objects.create(name=name, **{**defaults, "types": types or ["mail"], **fields})


def worker_over_http(name: str = "pi-1", *, types: list[str], **fields: Any) -> Worker:
    """One of the key `key-1`."""
    fields = {"kind": Worker.Kind.HTTP, "client": "key-1", "lanes": [], **fields}
    return worker(name, types=types, **fields)


def schedule(type_name: str = "mail", title: str = "Send the report", **fields: Any) -> Schedule:
    """A schedule of every minute from now on, whose type is made if need be."""
    if not JobType.objects.filter(name=type_name).exists():
        job_type(type_name)
    fields = {"rule": {"every_minutes": 1}, **fields}
    return schedules.create_schedule(actor=OPERATOR, title=title, job_type=type_name, **fields)
