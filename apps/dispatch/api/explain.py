"""Why not: the reasons why a user gets a task or not, or gets nothing."""

from __future__ import annotations

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.access.rules.clients import Binding
from apps.common.api.serializer_fields import Choice, Instant, Integer, Text
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Invalid
from apps.dispatch.models import TASK_MODELS, Source
from apps.dispatch.rules import names
from apps.dispatch.rules.explain import CODES
from apps.dispatch.services import executors
from apps.dispatch.services.explain import explain, why_nothing
from apps.dispatch.services.tasks import find_task


class ExplainQuery(StrictSerializer):
    """`source` and `task` together; without them it is about all tasks of the user."""

    executor = Text(max_length=names.MAX_CHARACTERS, help_text="A user.")
    source = Choice(choices=Source.choices, required=False)  # type: ignore[assignment]
    task = Integer(min_value=1, max_value=2**63 - 1, required=False)
    occurrence_at = Instant(
        required=False, help_text="Of a rotation; the current one or else the next, when absent."
    )


class ReasonOut(Answer):
    code = serializers.ChoiceField(choices=CODES)
    detail = serializers.CharField()
    until = Instant(allow_null=True, help_text="When it could change; null: not by waiting.")


class ExplanationOut(Answer):
    eligible = serializers.BooleanField(
        help_text="A pull could hand it out now, after the tasks before it in the queue."
    )
    occurrence_at = Instant(allow_null=True)
    reasons = ReasonOut(many=True)


class ExampleOut(Answer):
    source = serializers.ChoiceField(source="task.source", choices=Source.choices)  # type: ignore[assignment]
    task = serializers.IntegerField(source="task.pk")
    title = serializers.CharField(source="task.title")
    occurrence_at = Instant(source="explanation.occurrence_at", allow_null=True)
    detail = serializers.CharField(source="explanation.first.detail", help_text="The first reason.")


class GroupOut(Answer):
    code = serializers.ChoiceField(choices=CODES, help_text="The first reason of these tasks.")
    count = serializers.IntegerField()
    until = Instant(
        allow_null=True, help_text="When a pull could first hand one out; null: not by waiting."
    )
    tasks = ExampleOut(many=True, source="examples", help_text="The first five.")


class AllOut(Answer):
    groups = GroupOut(many=True, help_text="What the user can have first, then the largest.")
    until = Instant(allow_null=True, help_text="The next instant that could change the answer.")
    more = serializers.BooleanField(help_text="There are more tasks; these are the first due.")


_ONE_OR_ALL = PolymorphicProxySerializer(
    component_name="ExplainedOneOrAll",
    serializers=[ExplanationOut, AllOut],
    resource_type_field_name=None,
)


class ExplainView(ApiView):
    """Why a user would or would not get a task now: all reasons, and when they could change.

    Without a task: why the user gets nothing, all its tasks by their first reason.
    """

    operations = {"get": "explain"}
    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": ExplainQuery}
    answers = {"get": _ONE_OR_ALL}
    problems = (404,)

    def get(self, request: Request) -> JsonAnswer:
        bound, query = executors_of(request), self.query
        for name, other in (("source", "task"), ("task", "source"), ("task", "occurrence_at")):
            if name not in query and other in query:
                raise Invalid.field(
                    name, f"{name} is missing: {other} is sent with it or not at all."
                )
        executor = executors.find(query["executor"], bound=bound)
        if "task" not in query:
            return JsonAnswer(AllOut.of(why_nothing(executor, bound=bound)))
        model = TASK_MODELS[query["source"]]
        explanation = explain(
            executor=executor,
            task=find_task(model, query["task"], bound=bound, also_deleted=True),
            occurrence_at=query.get("occurrence_at"),
        )
        return JsonAnswer(ExplanationOut.of(explanation))
