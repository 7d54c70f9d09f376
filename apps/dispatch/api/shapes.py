"""The JSON of executors, templates, tasks and dispatches, and how OpenAPI tells of it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from rest_framework import serializers

from apps.common import clock
from apps.common.messages import wire_time
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Source, Template
from apps.dispatch.services import callback

# How many coming instants a rotation tells.
NEXT_DUE = 10
# The states of a task that the API tells and takes; a deleted one is no longer known.
STANDING = [
    choice for choice in OnceTask.Status.choices if choice[0] != OnceTask.Status.DELETED.value
]


def dispatch_shape(dispatch: Dispatch) -> dict[str, Any]:
    """DISPATCH of the wire contract."""
    template = None
    if dispatch.template_name:
        template = {"name": dispatch.template_name, "version": dispatch.template_version}
    return {
        "number": str(dispatch.pk),
        "redo": dispatch.redo,
        "source": dispatch.source,
        "task": dispatch.task,
        "occurrence_at": wire_time(dispatch.occurrence_at),
        "title": dispatch.title,
        "params": dispatch.params,
        "template": template,
        "dispatched_at": wire_time(dispatch.dispatched_at),
        "deadline_at": wire_time(dispatch.deadline_at),
    }


def dispatch_detail_shape(dispatch: Dispatch) -> dict[str, Any]:
    """DISPATCH and what became of it."""
    finished_at = dispatch.finished_at
    return {
        **dispatch_shape(dispatch),
        "executor": dispatch.executor.name,
        "state": dispatch.state,
        "round": dispatch.round,
        "result": dispatch.result,
        "message": dispatch.message,
        "finished_at": None if finished_at is None else wire_time(finished_at),
    }


def executor_shape(executor: Executor) -> dict[str, Any]:
    seen = executor.last_seen_at
    return {
        "name": executor.name,
        "kind": executor.kind,
        "title": executor.title,
        "enabled": executor.enabled,
        "last_seen_at": None if seen is None else wire_time(seen),
        "version": executor.version,
    }


def template_shape(template: Template) -> dict[str, Any]:
    return {
        "name": template.name,
        "version": template.version,
        "schema": template.schema,
        "status": template.status,
        "created_at": wire_time(template.created_at),
    }


def task_shape(task: OnceTask | RotateTask, *, handed: int) -> dict[str, Any]:
    """A task; `remaining` None when unlimited, never below 0. Of a rotation, `handed` and
    `remaining` are the present occurrence's."""
    remaining = None if task.dispatch_times is None else max(0, task.dispatch_times - handed)
    return {
        "id": task.pk,
        "title": task.title,
        "executor": task.executor.name,
        "template": None if task.template is None else task.template.name,
        "template_version": None if task.template is None else task.template.version,
        "params": task.params,
        "start_at": wire_time(task.start_at),
        "end_at": None if task.end_at is None else wire_time(task.end_at),
        "mode": task.mode,
        "dispatch_times": task.dispatch_times,
        "priority": task.priority,
        "lease_seconds": task.lease_seconds,
        "on_failure": task.on_failure,
        "on_expiry": task.on_expiry,
        "max_rounds": task.max_rounds,
        "status": task.status,
        "handed": handed,
        "remaining": remaining,
        "version": task.version,
        "created_at": wire_time(task.created_at),
        "updated_at": wire_time(task.updated_at),
        **(_rotation_shape(task) if isinstance(task, RotateTask) else {}),
    }


def _rotation_shape(task: RotateTask) -> dict[str, Any]:
    due = islice(task.recurrence.after(clock.now()), NEXT_DUE)
    return {
        "rule": task.rule,
        "time_zone": task.time_zone,
        "misfire": task.misfire,
        "misfire_limit": task.misfire_limit,
        "next_due": [wire_time(instant) for instant in due],
        "summary": task.summary,
    }


class TemplateVersionOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField()


class DispatchOut(serializers.Serializer[Any]):
    number = serializers.CharField(help_text="The log number, a decimal string.")
    redo = serializers.IntegerField(help_text="How often it was pulled again while open.")
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment]
    task = serializers.IntegerField()
    occurrence_at = serializers.DateTimeField()
    title = serializers.CharField()
    params = serializers.DictField()
    template = TemplateVersionOut(allow_null=True)
    dispatched_at = serializers.DateTimeField()
    deadline_at = serializers.DateTimeField()


class DispatchDetailOut(DispatchOut):
    executor = serializers.CharField()
    state = serializers.ChoiceField(choices=Dispatch.State.choices)
    round = serializers.IntegerField()
    result = serializers.DictField(allow_null=True)
    message = serializers.CharField()
    finished_at = serializers.DateTimeField(allow_null=True)


class CallbackOut(serializers.Serializer[Any]):
    number = serializers.CharField()
    state = serializers.ChoiceField(choices=callback.OUTCOMES)
    finished_at = serializers.DateTimeField()
    next = DispatchOut(allow_null=True)


class EndedOut(serializers.Serializer[Any]):
    number = serializers.CharField()
    state = serializers.ChoiceField(choices=["released", "cancelled"])


class ExecutorOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Executor.Kind.choices)
    title = serializers.CharField()
    enabled = serializers.BooleanField()
    last_seen_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class MembersOut(serializers.Serializer[Any]):
    members = serializers.ListField(child=serializers.CharField())


class TemplateOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField()
    schema = serializers.DictField()
    status = serializers.ChoiceField(choices=Template.Status.choices)
    created_at = serializers.DateTimeField()


class OnceTaskOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    title = serializers.CharField()
    executor = serializers.CharField()
    template = serializers.CharField(allow_null=True)
    template_version = serializers.IntegerField(allow_null=True)
    params = serializers.DictField()
    start_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField(allow_null=True)
    mode = serializers.ChoiceField(choices=OnceTask.Mode.choices)
    dispatch_times = serializers.IntegerField(allow_null=True)
    priority = serializers.IntegerField()
    lease_seconds = serializers.IntegerField()
    on_failure = serializers.ChoiceField(choices=OnceTask.OnFailure.choices)
    on_expiry = serializers.ChoiceField(choices=OnceTask.OnExpiry.choices)
    max_rounds = serializers.IntegerField()
    status = serializers.ChoiceField(choices=STANDING)
    handed = serializers.IntegerField()
    remaining = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class RuleOut(serializers.Serializer[Any]):
    every_minutes = serializers.IntegerField(required=False)
    every_days = serializers.IntegerField(required=False)
    at = serializers.CharField(required=False)
    cron = serializers.CharField(required=False)


class RotateTaskOut(OnceTaskOut):
    rule = RuleOut()
    time_zone = serializers.CharField()
    misfire = serializers.ChoiceField(choices=RotateTask.Misfire.choices)
    misfire_limit = serializers.IntegerField()
    next_due = serializers.ListField(
        child=serializers.DateTimeField(), help_text="The next ten instants, from now on."
    )
    summary = serializers.CharField(help_text="The rule in plain words.")
