"""Django's Tasks API on jobs: what code enqueues with `@task` becomes a job.

    TASKS = {"default": {"BACKEND": "apps.jobs.tasks_backend.JobsBackend", "QUEUES": ["default"]}}

The queue `mails` is the job type `task.mails`; of a backend with another alias than `default` it is
`task.<alias>.mails`. The number of the job is the id of the result. A job names its task, so only
code submits jobs of such a type; `"OPTIONS": {"OPEN": ["mails"]}` opens a queue to all.
"""

from __future__ import annotations

from collections.abc import Iterable
from traceback import format_exception
from typing import Any

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from apps.common import clock
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import read_number
from apps.jobs.handlers import Context, Fail, Later, handler
from apps.jobs.handlers.registry import find as find_handler
from apps.jobs.models import AnyJob, Job
from apps.jobs.models.job_type import QUEUE_PREFIX, QUEUE_TITLE
from apps.jobs.rules import failures
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
_ACTOR = "tasks"
_SCHEMA = {
    "type": "object",
    "properties": {
        "task": {"type": "string"},
        "backend": {"type": "string"},
        "args": {"type": "array"},
        "kwargs": {"type": "object"},
    },
    "required": ["task", "backend", "args", "kwargs"],
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


def type_of(alias: str, queue: str) -> str:
    """The job type of a queue."""
    return f"{QUEUE_PREFIX}{queue}" if alias == "default" else f"{QUEUE_PREFIX}{alias}.{queue}"


def _settings_of(queue: str) -> dict[str, Any]:
    """What the job type of a queue begins with. Django's tasks are tried once."""
    return {"title": f"{QUEUE_TITLE}{queue}"[:100], "max_attempts": 1, "params_schema": _SCHEMA}


def register_queues() -> None:
    """Make the handler of each queue that TASKS gives to this backend."""
    for alias, params in getattr(settings, "TASKS", {}).items():
        if params["BACKEND"] == PATH:
            opened = params.get("OPTIONS", {}).get("OPEN", ())
            for queue in params.get("QUEUES") or ["default"]:
                is_closed = queue not in opened
                handler(
                    type_of(alias, queue),
                    for_code=is_closed,
                    about=_("Call the task of the job; what it returns must be JSON."),
                    **_settings_of(queue),
                )(run)


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

    def enqueue(
        self, task: Task[Any, Any], args: Iterable[Any], kwargs: dict[str, Any]
    ) -> TaskResult[Any]:
        """InvalidTaskError also for a task that workers would not import."""
        self.validate_task(task)
        if apps.get_containing_app_config(task.module_path) is None:
            raise InvalidTaskError(
                f"{task.module_path} is in no installed app, so no worker would run it; move it to "
                "one, or name its app in EXTRA_APPS."
            )
        context = {
            "task": task.module_path,
            "backend": self.alias,
            "args": normalize_json(list(args)),
            "kwargs": normalize_json(kwargs),
        }
        name = type_of(self.alias, task.queue_name)
        if name not in type_snapshots([name]):
            ensure_types([name], {name: _settings_of(task.queue_name)}, actor=_ACTOR)
        made = submit(name, context, priority=task.priority, run_at=task.run_after)
        result = self.get_result(str(made.id))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """TaskResultDoesNotExist also when its function is gone."""
        number = read_number(result_id)
        job = None if number is None else find(number)
        names = {type_of(self.alias, queue): queue for queue in self.queues}
        if job is None or job.type not in names or job.context.get("backend") != self.alias:
            raise TaskResultDoesNotExist(result_id)
        try:
            task = find_task(job)
        except LookupError as error:
            raise TaskResultDoesNotExist(str(error)) from error
        return _result(job, task.using(queue_name=names[job.type]))


def find_task(job: AnyJob) -> Task[Any, Any]:
    """The task that the job calls, as it was enqueued; LookupError when there is none.

    Only what is in an installed app is imported: whoever may submit jobs chooses the name.
    """
    path = str(job.context.get("task", ""))
    if apps.get_containing_app_config(path) is None:
        raise LookupError(Message(failures.NO_APP, path=repr(path)))
    try:
        task = import_string(path)
    except ImportError as error:
        reason = Message(failures.NO_TASK, path=repr(path), error=str(error))
        raise LookupError(reason) from error
    if not isinstance(task, Task):
        raise LookupError(Message(failures.NOT_A_TASK, path=repr(path)))
    return task.using(
        priority=job.priority,
        backend=str(job.context.get("backend", "")),
        run_after=job.expected_at if job.expected_at > job.created_at else None,
    )


def run(context: dict[str, Any], ctx: Context) -> Any:
    job = Job.objects.get(pk=ctx.job_id)
    if (entry := find_handler(job.type)) is None or entry.function is not run:
        raise Fail(Message(failures.NO_QUEUE, type=job.type))
    try:
        task = find_task(job)
        backend = type(task_backends[task.backend])
    except LookupError as error:
        raise Fail(str(error)) from error
    result = _result(job, task)
    task_started.send(backend, task_result=result)
    before = [TaskContext(task_result=result)] if task.takes_context else []
    try:
        value = normalize_json(task.call(*before, *context["args"], **context["kwargs"]))
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
        args=job.context["args"],
        kwargs=job.context["kwargs"],
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
