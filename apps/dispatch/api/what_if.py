"""The comparison of queues without and with a task or an edit that is not saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.serializers import Answer
from apps.common.api.views import ApiView, JsonAnswer
from apps.dispatch.api.preview import InPeriod, ItemOut, concealed, period_from
from apps.dispatch.api.tasks import (
    OnceTaskChanges,
    RotateTaskBody,
    RotateTaskChanges,
    TaskBody,
    resolved,
)
from apps.dispatch.models import OnceTask, RotateTask
from apps.dispatch.services import archive, what_if


class OnceTaskWhatIf(InPeriod, TaskBody):
    pass


class RotateTaskWhatIf(InPeriod, RotateTaskBody):
    pass


class _SomeFields(InPeriod):
    """The fields to change."""

    is_changes = True

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class OnceTaskWhatIfChanges(_SomeFields, OnceTaskChanges):
    pass


class RotateTaskWhatIfChanges(_SomeFields, RotateTaskChanges):
    pass


class WhatIfItemOut(ItemOut):
    task = serializers.IntegerField(
        source="saved_task", allow_null=True, help_text="null: the one that is not saved."
    )


class QueueChangeOut(Answer):
    name = serializers.CharField(source="executor.name")
    before = WhatIfItemOut(many=True, source="before.items")
    after = WhatIfItemOut(many=True, source="after.items")
    more = serializers.BooleanField(
        help_text=f"Only the first {what_if.MAX_ITEMS} items are compared; ask for a shorter "
        "period."
    )


class WhatIfOut(Answer):
    executors = QueueChangeOut(
        many=True,
        source="changes",
        help_text="Those that the task is and was addressed to; of groups also the members whose "
        "queues change.",
    )
    more_members = serializers.BooleanField(
        help_text=f"Only the first {what_if.MAX_MEMBERS} members by name are compared."
    )


class WhatIfNewView(ApiView):
    """Show the effect of a new task; nothing is saved."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    answers = {"post": WhatIfOut}
    problems = (409,)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def post(self, request: Request) -> JsonAnswer:
        body, now = self.read_body(), clock.now()
        period = period_from(body, now=now)
        fields = resolved(self.model, body, request)
        comparison = what_if.what_if_created(self.model, fields=fields, period=period, now=now)
        return _answer(request, comparison)


class WhatIfView(ApiView):
    """Show the effect of an edit of the task; the fields as in PATCH, and nothing is saved."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    answers = {"post": WhatIfOut}
    problems = (404, 409)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def post(self, request: Request, pk: int) -> JsonAnswer:
        task: Any = archive.find_live_task(self.model, pk, bound=executors_of(request))
        body, now = self.bodies["post"].check(request.data, partial=True), clock.now()
        period = period_from(body, now=now)
        version = body.pop("version", None)
        changes = resolved(self.model, body, request, current=task)
        comparison = what_if.what_if_updated(
            task=task,
            changes=changes,
            period=period,
            version=version,
            now=now,
        )
        return _answer(request, comparison)


def _answer(request: Request, comparison: what_if.WhatIf) -> JsonAnswer:
    bound = executors_of(request)
    changes = [
        replace(each, before=concealed(each.before, bound), after=concealed(each.after, bound))
        for each in comparison.changes
    ]
    return JsonAnswer(WhatIfOut.of(comparison._replace(changes=changes)))


class OnceTaskWhatIfNewView(WhatIfNewView):
    """Show the effect of a new once task; nothing is saved."""

    model = OnceTask
    bodies = {"post": OnceTaskWhatIf}
    operations = {"post": "what_if_new_once_task"}


class RotateTaskWhatIfNewView(WhatIfNewView):
    """Show the effect of a new rotation; nothing is saved."""

    model = RotateTask
    bodies = {"post": RotateTaskWhatIf}
    operations = {"post": "what_if_new_rotate_task"}


class OnceTaskWhatIfView(WhatIfView):
    """Show the effect of an edit of the once task; fields as in PATCH, and nothing is saved."""

    model = OnceTask
    bodies = {"post": OnceTaskWhatIfChanges}


class RotateTaskWhatIfView(WhatIfView):
    """Show the effect of an edit of the rotation; fields as in PATCH, and nothing is saved."""

    model = RotateTask
    bodies = {"post": RotateTaskWhatIfChanges}
