"""The JSON of flows and their runs."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import masks_payload, unmask
from apps.common.api.paging import left_out
from apps.common.api.serializer_fields import Instant, JsonObject, StoredObject
from apps.common.api.serializers import Answer
from apps.common.masking import redact
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.rules import shapes
from apps.flows.services.masks import masked, unmasked


def _in_openapi(schema: Any) -> Any:
    """The JSON Schema in the words of OpenAPI 3.0, which knows neither const nor several types."""
    if isinstance(schema, list):
        return [*map(_in_openapi, schema)]
    if not isinstance(schema, dict):
        return schema
    made = {name: _in_openapi(value) for name, value in schema.items()}
    if "const" in schema:
        made["enum"] = [made.pop("const")]
    if isinstance(schema.get("type"), list):
        types = [each for each in schema["type"] if each != "null"]
        if len(types) > 1:
            made = {name: value for name, value in made.items() if name != "maxItems"}
            del made["type"]
        else:
            made |= {"type": types[0], "nullable": True}
    return made


@extend_schema_field(_in_openapi(dict(shapes.DEFINITION)))
class Definition(JsonObject):
    """A definition; the services check what is in it."""


def unmask_definition(request: Request, body: dict[str, Any], stored: Any = None) -> None:
    """As `unmask`, of a definition whose steps may have been moved."""
    if "definition" in body and masks_payload(request):
        body["definition"] = unmasked(body["definition"], stored, field="definition")
        unmask(request, body, "definition", stored)


class _WithDefinition(Answer):
    payload: ClassVar[tuple[str, ...]] = ("definition",)

    @classmethod
    def of(cls, row: Any, *, masks: bool = False) -> dict[str, Any]:
        shape = super().of(row, masks=masks)
        if masks:
            shape["definition"] = masked(shape["definition"])
        return shape


class FlowOut(_WithDefinition):
    name = serializers.CharField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    definition = Definition()
    status = serializers.ChoiceField(choices=Flow.Status.choices)
    created_at = Instant()
    created_by = serializers.CharField()


class FlowCheckedOut(Answer):
    levels = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="The names of steps in the order in which they can be begun.",
    )


class FlowStartedOut(Answer):
    id = serializers.CharField(help_text="A decimal string.")
    created = serializers.BooleanField(
        help_text="False: the id is that of the open run of the same flow and key."
    )
    status = serializers.ChoiceField(choices=FlowRun.Status.choices)


class FlowStepOut(Answer):
    payload = ("result", "memo")

    id = serializers.CharField(
        source="pk", help_text="A decimal string: the part_of of its jobs, task and dispatches."
    )
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=FlowStep.Kind.choices)
    state = serializers.ChoiceField(choices=FlowStep.State.choices)
    made = serializers.IntegerField(help_text="How many jobs it has.")
    task = serializers.IntegerField(allow_null=True, help_text="Its once task.")
    result = serializers.JSONField(allow_null=True)
    result_left_out = serializers.BooleanField(
        default=False,
        help_text="True: with those of the steps before it is too large here; read that of "
        "a job at `steps/{name}/results/`, that of a person by `part_of` among the dispatches.",
    )
    memo = serializers.CharField(help_text="Why it failed, was skipped or breaks.")
    by = serializers.CharField(help_text="Who skipped or finished it.")
    started_at = Instant(allow_null=True)
    ended_at = Instant(allow_null=True)


class FlowRunOut(Answer):
    payload: ClassVar[tuple[str, ...]] = ("reason",)

    id = serializers.CharField(source="pk", help_text="A decimal string.")
    flow = serializers.CharField(help_text="Empty: a definition of its own.")
    flow_version = serializers.IntegerField()
    status = serializers.ChoiceField(choices=FlowRun.Status.choices)
    paused = serializers.BooleanField(source="is_paused")
    key = serializers.CharField()
    started_by = serializers.CharField()
    trace_id = serializers.CharField()
    reason = serializers.CharField(help_text="Why it was cancelled.")
    created_at = Instant()
    finished_at = Instant(allow_null=True)
    version = serializers.IntegerField()


class FlowRunDetailOut(FlowRunOut, _WithDefinition):
    payload = (*FlowRunOut.payload, "params", *_WithDefinition.payload)

    params = StoredObject()
    definition = Definition()
    steps = FlowStepOut(many=True, source="in_order", help_text="In the order of the definition.")

    @classmethod
    def of(cls, row: Any, *, masks: bool = False) -> dict[str, Any]:
        shape = super().of(row, masks=masks)
        results = [step["result"] for step in shape["steps"]]
        for step, is_left_out in zip(shape["steps"], left_out(results), strict=True):
            if is_left_out:
                step |= {"result": None, "result_left_out": True}
            if masks:
                step |= {name: redact(step[name]) for name in FlowStepOut.payload}
        return shape


class FlowJobOut(Answer):
    payload: ClassVar[tuple[str, ...]] = ("result",)

    id = serializers.CharField(help_text="The job, a decimal string.")
    status = serializers.CharField()
    result = serializers.JSONField(allow_null=True)


class FlowResultsOut(Answer):
    results = FlowJobOut(many=True)
    after = serializers.CharField(
        allow_null=True, help_text="Of the next page; null: this is the last one."
    )
