"""Looking ahead: what an executor would get."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.serializer_fields import Instant
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.dispatch.models import Source
from apps.dispatch.services import executors, preview
from apps.dispatch.services.preview import Period, Preview, period_of, seen_tasks


class InPeriod(StrictSerializer):
    """`from` and `to`; a word of Python cannot be declared like a field."""

    def get_fields(self) -> dict[str, Any]:
        period = {
            "from": Instant(required=False, help_text="Now, when it is absent."),
            "to": Instant(
                required=False,
                help_text="Not included; 7 days later when it is absent, 400 days at most.",
            ),
        }
        return {**super().get_fields(), **period}


class ItemOut(Answer):
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment]
    task = serializers.IntegerField()
    occurrence_at = Instant()
    title = serializers.CharField(help_text="Empty when the key may not see the task.")
    priority = serializers.IntegerField()
    remaining = serializers.IntegerField(
        help_text="What is left just before it is handed out; of every member once: how many "
        "members have not had it."
    )
    at = Instant(help_text="When the executor would get it.")
    number = serializers.CharField(
        allow_null=True, help_text="Of the dispatch, if it is open already."
    )


class PreviewOut(Answer):
    items = ItemOut(many=True, help_text="In hand-out order.")
    more = serializers.BooleanField(help_text="There is more; ask for a shorter period.")


class PreviewView(ApiView):
    """The tasks that the executor would get if it did everything at once and had no rivals.

    For a group: the occurrences that its members could get.
    """

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": InPeriod}
    answers = {"get": PreviewOut}
    problems = (404,)

    def get(self, request: Request, name: str) -> JsonAnswer:
        bound, now = executors_of(request), clock.now()
        executor = executors.find(name, bound=bound)
        ahead = preview.preview(executor, period_from(self.query, now=now), now=now)
        return JsonAnswer(PreviewOut.of(concealed(ahead, bound)))


def concealed(preview: Preview, bound: Collection[str] | None) -> Preview:
    """The preview without the titles of tasks that answer 404 to a key that is bound to these
    executors; such a key sees an open dispatch."""
    seen = seen_tasks({(item.source, item.task) for item in preview.items}, bound)
    items = [
        item
        if (item.source, item.task) in seen or item.number is not None
        else item._replace(title="")
        for item in preview.items
    ]
    return preview._replace(items=items)


def period_from(given: dict[str, Any], *, now: Any) -> Period:
    """The period of a query or body, taken out of it."""
    return period_of(given.pop("from", None), given.pop("to", None), now=now)
