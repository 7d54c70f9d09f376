"""Django's Tasks API on jobs: what code enqueues with `@task` becomes a job.

    TASKS = {"default": {"BACKEND": "apps.jobs.tasks_backend.JobsBackend", "QUEUES": ["default"]}}

Each function is a job type: `send_receipt` in `tasks.py` of the app `shop` is `shop.send_receipt`.
The number of the job is the id of the result. Who submits a job chooses the arguments, so only code
does; `"OPTIONS": {"OPEN": ["shop.send_receipt"]}` opens a type to all.

Once each queue was a type, `task.<queue>`, or `task.<alias>.<queue>` of another backend than
`default`. Jobs of these types still run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from traceback import format_exception
from typing import Any
from zlib import crc32

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from apps.common import clock
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import read_number
from apps.jobs.handlers import Context, Fail, Later, handler, registry
from apps.jobs.handlers.discovery import modules_named
from apps.jobs.models import AnyJob, Job, JobType
from apps.jobs.models.job_type import MAX_NAME, QUEUE_PREFIX
from apps.jobs.rules import failures, type_settings
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import FAILURES
from apps.jobs.services.find import find
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots
from apps.jobs.services.types import ensure_types
from apps.jobs.tasks_api import (
    BaseTaskBackend,
    InvalidTaskBackendError,
    InvalidTaskError,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from apps.journal.models import JournalEntry, Source

PATH = "apps.jobs.tasks_backend.JobsBackend"
# Runs the jobs of all tasks.
HANDLER = "django_task"
_ACTOR = "tasks"
_ABOUT = _("Call the task of the job; what it returns must be JSON.")
_SCHEMA = {
    "type": "object",
    "properties": {
        "task": {"type": "string"},
        "backend": {"type": "string"},
        "queue": {"type": "string"},
        "args": {"type": "array"},
        "kwargs": {"type": "object"},
    },
    "additionalProperties": False,
}
_STATUSES = {
    t.SCHEDULED: TaskResultStatus.READY,
    t.BLOCKED: TaskResultStatus.READY,
    t.READY: TaskResultStatus.READY,
    t.RUNNING: TaskResultStatus.RUNNING,
    t.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    t.FAILED: TaskResultStatus.FAILED,
    t.CANCELLED: TaskResultStatus.FAILED,
}
_COUNTED = {t.END_SUCCEEDED, *FAILURES}


# The path of each task that this process knows by its type.
_paths: dict[str, str] = {}


def type_of(path: str) -> str:
    """The job type of the task at this path; LookupError when it is in no installed app."""
    app = apps.get_containing_app_config(path)
    if app is None:
        raise LookupError(Message(failures.NO_APP, path=repr(path)))
    name = f"{app.label}.{path.removeprefix(f'{app.name}.').removeprefix('tasks.')}"
    if type_settings.is_name(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return f"{plain[: MAX_NAME - 9]}-{crc32(path.encode()):08x}"


def register_tasks() -> None:
    """Make the handler of all tasks, and know the types of those in `tasks.py` of EXTRA_APPS."""
    ours = {
        alias: params
        for alias, params in getattr(settings, "TASKS", {}).items()
        if params["BACKEND"] == PATH
    }
    if not ours:
        return
    opened = {
        name for params in ours.values() for name in params.get("OPTIONS", {}).get("OPEN", ())
    }
    queues = {
        (alias, queue) for alias in ours for queue in ours[alias].get("QUEUES") or ["default"]
    }
    for name in (HANDLER, *(_queue_type(*each) for each in sorted(queues))):
        handler(name, for_code=True, about=_ABOUT, of_many=True, opened=opened)(run)
    for module in modules_named("tasks", settings.EXTRA_APPS):
        for each in vars(module).values():
            if isinstance(each, Task) and each.backend in ours:
                _note(each)


def _note(task: Task[Any, Any]) -> str:
    """Know the task and its type; the name of the type."""
    name = type_of(task.module_path)
    _paths.setdefault(name, task.module_path)
    registry.known.types.setdefault(
        name,
        {
            "handler": HANDLER,
            # Its queue, if a lane has this name.
            "lane": task.queue_name
            if task.queue_name in JobType.Lane.values
            else JobType.Lane.FAST,
            # Django's tasks are tried once.
            "max_attempts": 1,
            "params_schema": _SCHEMA,
        },
    )
    return name


def _queue_type(alias: str, queue: str) -> str:
    """The job type that a queue once was."""
    return f"{QUEUE_PREFIX}{queue}" if alias == "default" else f"{QUEUE_PREFIX}{alias}.{queue}"


class JobsBackend(BaseTaskBackend):
    """Tasks are jobs, submitted in the caller's transaction; a rollback takes them back."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := self.options.keys() - {"OPEN"}:
            raise InvalidTaskBackendError(
                f"TASKS[{alias!r}] has OPTIONS ({', '.join(sorted(unknown))}), and this backend "
                "knows OPEN alone; remove them, and set the job types of its queues in the admin."
            )
        self.queues = self.queues or {"default"}

    def validate_task(self, task: Task[Any, Any]) -> None:
        """InvalidTaskError also for one of the other package: Django 6 has a Task of its own."""
        if not isinstance(task, Task):
            package = Task.__module__.rpartition(".")[0]
            raise InvalidTaskError(f"Write 'from {package} import task'; this Django needs it.")
        super().validate_task(task)

    def enqueue(
        self, task: Task[Any, Any], args: Iterable[Any], kwargs: dict[str, Any]
    ) -> TaskResult[Any]:
        """InvalidTaskError also for a task that workers would not import."""
        self.validate_task(task)
        try:
            name = _note(task)
        except LookupError as error:
            raise InvalidTaskError(
                f"{task.module_path} is in no installed app, so no worker would run it; move it to "
                "one, or name its app in EXTRA_APPS."
            ) from error
        context = {
            "task": task.module_path,
            "backend": self.alias,
            "queue": task.queue_name,
            "args": normalize_json(list(args)),
            "kwargs": normalize_json(kwargs),
        }
        if (type_ := type_snapshots([name]).get(name)) is None:
            ensure_types([name], registry.known.types, actor=_ACTOR)
        elif type_.handler != HANDLER:
            raise InvalidTaskError(
                f"The job type {name} of {task.module_path} has the handler {type_.handler!r} and "
                f"not {HANDLER!r}; rename the function, or change the type in the admin."
            )
        made = submit(name, context, priority=task.priority, run_at=task.run_after)
        result = self.get_result(str(made.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """TaskResultDoesNotExist also when its function is gone."""
        number = read_number(result_id)
        job = None if number is None else find(number)
        if job is None or job.context.get("backend", "default") != self.alias:
            raise TaskResultDoesNotExist(result_id)
        try:
            return _result(job, find_task(job))
        except (LookupError, InvalidTaskError) as error:
            raise TaskResultDoesNotExist(str(error)) from error


def find_task(job: AnyJob) -> Task[Any, Any]:
    """The task that the job calls, as it was enqueued; LookupError when there is none.

    Only what is in an installed app, and of the type of the job, is imported: who may submit jobs
    writes what they carry.
    """
    path = str(job.context.get("task") or _paths.get(job.type, ""))
    alias = str(job.context.get("backend", "default"))
    queue = job.context.get("queue")
    if job.type != type_of(path):
        if (entry := registry.find(job.type)) is None or entry.function is not run:
            raise LookupError(Message(failures.NOT_OF_TASK, type=job.type, path=repr(path)))
        queue = job.type.rpartition(".")[2]
    try:
        task = import_string(path)
    except ImportError as error:
        reason = Message(failures.NO_TASK, path=repr(path), error=str(error))
        raise LookupError(reason) from error
    if not isinstance(task, Task):
        raise LookupError(Message(failures.NOT_A_TASK, path=repr(path)))
    return task.using(
        priority=job.priority,
        queue_name=queue,
        backend=alias,
        run_after=job.expected_at if job.expected_at > job.created_at else None,
    )


def run(context: dict[str, Any], ctx: Context) -> Any:
    job = Job.objects.get(pk=ctx.job_id)
    try:
        task = find_task(job)
        backend = type(task_backends[task.backend])
    except (LookupError, InvalidTaskError) as error:
        raise Fail(str(error)) from error
    result = _result(job, task)
    task_started.send(backend, task_result=result)
    before = [TaskContext(task_result=result)] if task.takes_context else []
    try:
        value = normalize_json(task.call(*before, *result.args, **result.kwargs))
    except BaseException as error:
        is_last = ctx.attempt >= ctx.max_attempts or isinstance(error, Fail)
        if is_last and not isinstance(error, Later):
            failure = TaskError(
                exception_class_path=_path_of(type(error)),
                traceback="".join(format_exception(error)),
            )
            result.errors.append(failure)
            _finish(backend, result, TaskResultStatus.FAILED)
        raise
    object.__setattr__(result, "_return_value", value)
    _finish(backend, result, TaskResultStatus.SUCCESSFUL)
    return value


def _finish(backend: Any, result: TaskResult[Any], status: TaskResultStatus) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", clock.now())
    task_finished.send(backend, task_result=result)


def _result(job: AnyJob, task: Task[Any, Any]) -> TaskResult[Any]:
    entries = JournalEntry.objects.timeline(Source.JOB, job.pk)
    ends = [entry for entry in entries if entry.event in _COUNTED] if job.holds else []
    running = [job.worker] if job.status == t.RUNNING else []
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=str(job.pk),
        status=_STATUSES[job.status],
        enqueued_at=job.created_at,
        started_at=job.started_at,
        last_attempted_at=job.held_at,
        finished_at=job.finished_at,
        args=job.context.get("args", []),
        kwargs=job.context.get("kwargs", {}),
        backend=task.backend,
        errors=[_error(entry) for entry in ends if entry.event in FAILURES],
        worker_ids=[entry.worker for entry in ends] + running,
    )
    if job.status == t.SUCCEEDED:
        object.__setattr__(result, "_return_value", job.result)
    return result


def _error(entry: JournalEntry) -> TaskError:
    raised = (entry.data or {}).get("exception", "")
    # A worker that was lost, and time that was up, have raised nothing.
    path = raised or _path_of(TimeoutError)
    # Ends as Python's own does; the journal keeps no blanks at the end.
    return TaskError(exception_class_path=path, traceback=f"{entry.error or entry.reason}\n")


def _path_of(raised: type[BaseException]) -> str:
    return f"{raised.__module__}.{raised.__qualname__}"
