"""Why not: what stands between a user and a task."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.common.messages import wire_time
from apps.common.serializers import Choice, Instant, Integer, StrictSerializer, Text
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


class ReasonOut(serializers.Serializer[Any]):
    code = serializers.ChoiceField(choices=CODES)
    detail = serializers.CharField()
    until = serializers.DateTimeField(
        allow_null=True, help_text="When it could change; null: not by waiting."
    )


class ExplanationOut(serializers.Serializer[Any]):
    eligible = serializers.BooleanField(
        help_text="A pull could hand it out now, after what stands before it in the queue."
    )
    occurrence_at = serializers.DateTimeField(allow_null=True)
    reasons = ReasonOut(many=True)


class ExplainView(ApiView):
    """All reasons why a user would or would not get a task now, and when they could change."""

    scopes = {"GET": "read"}
    queries = {"get": ExplainQuery}
    problems = (404,)

    @extend_schema(responses={200: ExplanationOut})
    def get(self, request: Request) -> JsonAnswer:
        bound, query = executors_of(request), self.query
        told = explain.explain(
            executor=executors.find(query["executor"], bound=bound),
            task=explain.find_task(query["source"], query["task"], bound=bound),
            occurrence_at=query.get("occurrence_at"),
        )
        at = told.occurrence_at
        reasons = [
            {
                "code": reason.code,
                "detail": reason.detail,
                "until": None if reason.until is None else wire_time(reason.until),
            }
            for reason in told.reasons
        ]
        return JsonAnswer(
            {
                "eligible": told.eligible,
                "occurrence_at": None if at is None else wire_time(at),
                "reasons": reasons,
            }
        )
