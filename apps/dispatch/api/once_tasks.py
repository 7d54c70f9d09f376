"""Planning over REST: once tasks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.errors import Invalid, NotFound
from apps.common.paging import KeysetPage, PageQuery
from apps.common.serializers import (
    Choice,
    Instant,
    Integer,
    JsonObject,
    StrictSerializer,
    Text,
)
from apps.common.views import ApiView
from apps.dispatch.api.bindings import actor_of, bound_of
from apps.dispatch.api.shapes import STANDING, OnceTaskOut, once_task_shape
from apps.dispatch.models import OnceTask
from apps.dispatch.rules import names
from apps.dispatch.rules.task import DISPATCH_TIMES, LEASE_SECONDS, MOST_TITLE, PRIORITIES, ROUNDS
from apps.dispatch.services import executors, tasks, templates


class OnceTaskQuery(PageQuery):
    executor = Text(max_length=names.MOST_CHARACTERS, required=False)
    status = Choice(choices=STANDING, required=False)


class OnceTaskBody(StrictSerializer):
    title = Text(max_length=MOST_TITLE)
    executor = Text(max_length=names.MOST_CHARACTERS)
    template = Text(max_length=templates.MOST_NAME, required=False, allow_null=True, default=None)
    params = JsonObject(required=False, default=dict)
    start_at = Instant(required=False, help_text="A new task starts now when it is absent.")
    end_at = Instant(required=False, allow_null=True, default=None)
    mode = Choice(choices=OnceTask.Mode.choices, required=False, default=OnceTask.Mode.SINGLE.value)
    dispatch_times = Integer(
        min_value=DISPATCH_TIMES[0],
        max_value=DISPATCH_TIMES[1],
        required=False,
        allow_null=True,
        default=1,
        help_text="null (mode multi only): every member once.",
    )
    priority = Integer(min_value=PRIORITIES[0], max_value=PRIORITIES[1], required=False, default=0)
    lease_seconds = Integer(
        min_value=LEASE_SECONDS[0], max_value=LEASE_SECONDS[1], required=False, default=3600
    )
    on_failure = Choice(
        choices=OnceTask.OnFailure.choices, required=False, default=OnceTask.OnFailure.FINISH.value
    )
    on_expiry = Choice(
        choices=OnceTask.OnExpiry.choices, required=False, default=OnceTask.OnExpiry.GIVE_BACK.value
    )
    max_rounds = Integer(min_value=ROUNDS[0], max_value=ROUNDS[1], required=False, default=3)
    status = Choice(choices=STANDING, required=False, default=OnceTask.Status.ACTIVE.value)


class OnceTaskChanges(OnceTaskBody):
    version = Integer(min_value=1, max_value=2**31 - 1, required=False)


class OnceTasksView(ApiView):
    """The once tasks that stand, newest first; or a new one."""

    scopes = {"GET": "read", "POST": "operate"}
    queries = {"get": OnceTaskQuery}
    bodies = {"post": OnceTaskBody}

    @extend_schema(responses={200: OnceTaskOut(many=True)})
    def get(self, request: Request) -> Response:
        page = KeysetPage(request, self.query)
        bound = bound_of(request)
        found = OnceTask.objects.standing().select_related("executor", "template")
        if bound is not None:
            found = found.within(bound)
        if self.query.get("status"):
            found = found.filter(status=self.query["status"])
        if self.query.get("executor"):
            known = names.is_name(self.query["executor"])
            found = found.filter(executor__name=self.query["executor"]) if known else found.none()
        rows = page.rows(found)
        handed = tasks.handed_of(rows)
        return Response(page.answer([once_task_shape(row, handed=handed[row.pk]) for row in rows]))

    @extend_schema(responses={201: OnceTaskOut})
    def post(self, request: Request) -> Response:
        body = _resolved(self.read_body(), bound_of(request))
        task = tasks.create_task(OnceTask, **body, actor=actor_of(request))
        return Response(once_task_shape(task, handed=0), status=201)


class OnceTaskView(ApiView):
    """One once task by id; DELETE marks it deleted."""

    scopes = {"GET": "read", "PUT": "operate", "PATCH": "operate", "DELETE": "operate"}
    bodies = {"put": OnceTaskChanges, "patch": OnceTaskChanges}
    problems = (404, 409)

    def _find(self, request: Request, pk: int) -> OnceTask:
        return tasks.find_task(OnceTask, pk, bound=bound_of(request))

    @extend_schema(responses={200: OnceTaskOut})
    def get(self, request: Request, pk: int) -> Response:
        return _answer(self._find(request, pk))

    @extend_schema(responses={200: OnceTaskOut})
    def put(self, request: Request, pk: int) -> Response:
        return self.patch(request, pk)

    @extend_schema(responses={200: OnceTaskOut})
    def patch(self, request: Request, pk: int) -> Response:
        task = self._find(request, pk)
        body = self.read_body()
        version = body.pop("version", None)
        changes = _resolved(body, bound_of(request))
        return _answer(
            tasks.update_task(task=task, changes=changes, actor=actor_of(request), version=version)
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        tasks.delete_task(task=self._find(request, pk), actor=actor_of(request))
        return Response(status=204)


def _answer(task: OnceTask) -> Response:
    return Response(once_task_shape(task, handed=tasks.handed_of([task])[task.pk]))


def _resolved(body: dict[str, Any], bound: Collection[str] | None) -> dict[str, Any]:
    """The body with the executor and the template that its names stand for."""
    if "executor" in body:
        try:
            body["executor"] = executors.find(body["executor"], bound=bound)
        except NotFound as error:
            raise Invalid.field("executor", f"{error.detail} Make it first.") from error
    if body.get("template") is not None:
        body["template"] = templates.find_usable(body["template"])
    return body
