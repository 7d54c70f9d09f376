"""Why not: the reasons why a user gets a task or not."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.access.rules.clients import Binding
from apps.common.serializers import Answer, Choice, Instant, Integer, StrictSerializer, Text
from apps.common.views import ApiView, JsonAnswer
from apps.dispatch.models import Source
from apps.dispatch.rules import names
from apps.dispatch.rules.explain import CODES
from apps.dispatch.services import executors, explain


class ExplainQuery(StrictSerializer):
    executor = Text(max_length=names.MAX_CHARACTERS, help_text="A user.")
    source = Choice(choices=Source.choices)  # type: ignore[assignment]
    task = Integer(min_value=1, max_value=2**63 - 1)
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


class ExplainView(ApiView):
    """All reasons why a user would or would not get a task now, and when they could change."""

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": ExplainQuery}
    answers = {"get": ExplanationOut}
    problems = (404,)

    def get(self, request: Request) -> JsonAnswer:
        bound, query = executors_of(request), self.query
        explanation = explain.explain(
            executor=executors.find(query["executor"], bound=bound),
            task=explain.find_task(query["source"], query["task"], bound=bound),
            occurrence_at=query.get("occurrence_at"),
        )
        return JsonAnswer(ExplanationOut.of(explanation))
