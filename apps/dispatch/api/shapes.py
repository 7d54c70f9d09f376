"""The JSON of executors, templates, tasks and dispatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db import models
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from apps.common.api.serializer_fields import Choice, Instant, Integer, JsonObject, Text
from apps.common.api.serializers import Answer, UndoableOut
from apps.common.errors import WHOLE, PlatformError
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Source, Task, Template
from apps.dispatch.rules.task import RANGES
from apps.dispatch.services import pull
from apps.dispatch.services.filtered import STATES, STATUSES


def require(rule: Callable[..., object], value: Any, *, field: str) -> None:
    """Apply a rule to the value; its errors join those of the other fields."""
    try:
        rule(value, field=field)
    except PlatformError as error:
        detail: dict[str, list[ErrorDetail]] = {}
        for each in error.errors:
            below = each.field.removeprefix(field).removeprefix(".") or WHOLE[0]
            detail.setdefault(below, []).append(ErrorDetail(each.message, each.code))
        raise ValidationError(detail) from error


def task_field(
    model: type[Task], name: str, **options: Any
) -> serializers.Field[Any, Any, Any, Any]:
    """The API field of a column of a task."""
    column: Any = model._meta.get_field(name)
    if column.choices:
        return Choice(choices=STATUSES if name == "status" else column.choices, **options)
    if isinstance(column, models.DateTimeField):
        return Instant(**options)
    if isinstance(column, models.JSONField):
        return JsonObject(**options)
    if isinstance(column, models.IntegerField):
        low, high = RANGES[name]
        return Integer(min_value=low, max_value=high, **options)
    return Text(max_length=column.max_length, **options)


class OnceTaskOut(Answer):
    model: ClassVar[type[OnceTask] | type[RotateTask]] = OnceTask
    payload = ("params",)

    id = serializers.IntegerField()
    executor = serializers.CharField(source="executor.name")
    template = serializers.CharField(source="template.name", allow_null=True)
    template_version = serializers.IntegerField(source="template.version", allow_null=True)
    state = serializers.ChoiceField(
        choices=STATES,
        source="availability.state",
        help_text="What has become of it; of a rotation, of its current occurrence.",
    )
    available_until = Instant(
        source="availability.until",
        allow_null=True,
        help_text="When it can no longer be had; null: a rotation that has no occurrence.",
    )
    handed = serializers.IntegerField(
        source="availability.handed",
        help_text="How much of the quota is handed out; of a rotation, for its current occurrence.",
    )
    remaining = serializers.IntegerField(
        source="availability.left",
        help_text="How much is left; of every member once: how many members have not had it.",
    )
    part_of = serializers.CharField(
        allow_null=True, help_text="The step of a flow whose task it is."
    )
    version = serializers.IntegerField()
    created_at = Instant()
    updated_at = Instant()

    def get_fields(self) -> dict[str, Any]:
        """The fields of the model, and among them the declared fields."""
        declared = super().get_fields()
        found = ["state", "available_until", "handed", "remaining"]
        names = ["id", *Task.editable, *found, "version", "created_at", "updated_at"]
        names.insert(names.index("template") + 1, "template_version")
        names += [name for name in (*self.model.editable, *declared) if name not in names]
        columns = self.model._meta
        return {
            name: declared[name]
            if name in declared
            else task_field(self.model, name, allow_null=columns.get_field(name).null)
            for name in names
        }


class RuleOut(Answer):
    every_minutes = serializers.IntegerField(required=False)
    every_days = serializers.IntegerField(required=False)
    at = serializers.CharField(required=False)
    cron = serializers.CharField(required=False)

    def to_representation(self, instance: Any) -> Any:
        """The rule as it was planned."""
        return instance


class RotateTaskOut(OnceTaskOut):
    model = RotateTask
    part_of = None  # type: ignore[assignment]

    rule = RuleOut()
    next_due = serializers.ListField(
        child=Instant(), help_text="The next ten instants, from now on."
    )
    summary = serializers.CharField(help_text="The rule in plain words.")


class OnceTaskActOut(UndoableOut, OnceTaskOut):
    pass


class RotateTaskActOut(UndoableOut, RotateTaskOut):
    pass


class TemplateVersionOut(Answer):
    name = serializers.CharField(source="template_name")
    version = serializers.IntegerField(source="template_version")

    def get_attribute(self, instance: Dispatch) -> Dispatch | None:
        return instance if instance.template_name else None


class DispatchOut(Answer):
    number = serializers.CharField(source="pk", help_text="The log number, a decimal string.")
    redo = serializers.IntegerField(help_text="How often it was pulled again while open.")
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment]
    task = serializers.IntegerField()
    occurrence_at = Instant()
    title = serializers.CharField()
    params = JsonObject()
    template = TemplateVersionOut(allow_null=True)
    dispatched_at = Instant()
    deadline_at = Instant()


class ArchivedTaskOut(Answer):
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment]
    id = serializers.IntegerField(
        source="task", help_text="Its number among the tasks of the source."
    )
    title = serializers.CharField()
    executor = serializers.CharField(source="executor.name")
    start_at = Instant()
    end_at = Instant(allow_null=True)
    archived_at = Instant(help_text="When it went to the archive.")


class DispatchDetailOut(DispatchOut):
    payload = ("params", "result", "message")

    executor = serializers.CharField(source="executor.name")
    state = serializers.ChoiceField(choices=Dispatch.State.choices)
    round = serializers.IntegerField()
    result = JsonObject(allow_null=True)
    message = serializers.CharField()
    finished_at = Instant(allow_null=True)
    archived_at = Instant(allow_null=True, help_text="When it went to the archive.")
    part_of = serializers.CharField(
        allow_null=True, help_text="The step of a flow that it is part of."
    )


class EndedOut(Answer):
    number = serializers.CharField(source="pk")
    state = serializers.ChoiceField(choices=["released", "cancelled"])


class CallbackOut(Answer):
    number = serializers.CharField()
    state = serializers.ChoiceField(choices=pull.OUTCOMES)
    finished_at = Instant()
    next = DispatchOut(allow_null=True)


class ExecutorOut(Answer):
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Executor.Kind.choices)
    title = serializers.CharField()
    enabled = serializers.BooleanField()
    last_seen_at = Instant(allow_null=True)
    version = serializers.IntegerField()


class MembersOut(Answer):
    members = serializers.ListField(child=serializers.CharField())


class TemplateOut(Answer):
    name = serializers.CharField()
    version = serializers.IntegerField()
    schema = JsonObject()
    status = serializers.ChoiceField(choices=Template.Status.choices)
    created_at = Instant()
