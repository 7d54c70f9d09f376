"""Planning over REST: once tasks and rotations."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request

from apps.access.bindings import actor_of, executors_of
from apps.common.errors import Invalid, Mistakes, NotFound
from apps.common.paging import KeysetPage, PageQuery
from apps.common.serializers import (
    Choice,
    Instant,
    Integer,
    JsonObject,
    StrictSerializer,
    Text,
    demand,
)
from apps.common.views import ApiView, JsonAnswer, NoContent
from apps.common.zones import parse_zone
from apps.dispatch.api.shapes import STANDING, OnceTaskOut, RotateTaskOut, task_shape
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task
from apps.dispatch.rules import names
from apps.dispatch.rules.recurrence import DAYS, MINUTES, parse_rule
from apps.dispatch.rules.task import (
    DISPATCH_TIMES,
    LEASE_SECONDS,
    MAX_TITLE,
    MISFIRES,
    PRIORITIES,
    ROUNDS,
)
from apps.dispatch.services import executors, judging, tasks, templates


class TaskQuery(PageQuery):
    executor = Text(max_length=names.MAX_CHARACTERS, required=False)
    status = Choice(choices=STANDING, required=False)


class TaskBody(StrictSerializer):
    """What once and rotate tasks have in common."""

    title = Text(max_length=MAX_TITLE)
    executor = Text(max_length=names.MAX_CHARACTERS)
    template = Text(max_length=templates.MAX_NAME, required=False, allow_null=True, default=None)
    params = JsonObject(required=False, default=dict)
    start_at = Instant(required=False, help_text="A new task starts now when it is absent.")
    end_at = Instant(required=False, allow_null=True, default=None)
    mode = Choice(choices=Task.Mode.choices, required=False, default=Task.Mode.SINGLE.value)
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
        choices=Task.OnFailure.choices, required=False, default=Task.OnFailure.FINISH.value
    )
    on_expiry = Choice(
        choices=Task.OnExpiry.choices, required=False, default=Task.OnExpiry.GIVE_BACK.value
    )
    max_rounds = Integer(min_value=ROUNDS[0], max_value=ROUNDS[1], required=False, default=3)
    status = Choice(choices=STANDING, required=False, default=Task.Status.ACTIVE.value)


class RuleBody(StrictSerializer):
    """Exactly one of every_minutes, every_days with at, and cron."""

    every_minutes = Integer(min_value=MINUTES[0], max_value=MINUTES[1], required=False)
    every_days = Integer(min_value=DAYS[0], max_value=DAYS[1], required=False)
    at = Text(max_length=8, required=False, help_text="Local time of day: 09:30 or 09:30:00.")
    cron = Text(max_length=100, required=False, help_text="Five fields: 0 9 * * 1-5")

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        rule = super().to_internal_value(data)
        demand(parse_rule, rule, field="rule")
        return rule


class ZoneName(Text):
    """The name of a time zone."""

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        demand(parse_zone, name, field="time_zone")
        return name


class RotateTaskBody(TaskBody):
    rule = RuleBody()
    time_zone = ZoneName(max_length=64, required=False, help_text="TIME_ZONE, when absent.")
    misfire = Choice(
        choices=RotateTask.Misfire.choices,
        required=False,
        default=RotateTask.Misfire.SKIP.value,
        help_text="Which missed occurrences may still be had.",
    )
    misfire_limit = Integer(
        min_value=MISFIRES[0], max_value=MISFIRES[1], required=False, default=10
    )


class _Version(StrictSerializer):
    version = Integer(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="As read before: 409 when somebody has changed it since.",
    )


class OnceTaskChanges(TaskBody, _Version):
    pass


class RotateTaskChanges(RotateTaskBody, _Version):
    pass


class TasksView(ApiView):
    """The tasks of a kind that stand, newest first; or a new one."""

    scopes = {"GET": "read", "POST": "operate"}
    queries = {"get": TaskQuery}
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        bound = executors_of(request)
        found: Any = self.model.objects.standing().select_related("executor", "template")
        if bound is not None:
            found = found.within(bound)
        if self.query.get("status"):
            found = found.filter(status=self.query["status"])
        if self.query.get("executor"):
            known = names.is_name(self.query["executor"])
            found = found.filter(executor__name=self.query["executor"]) if known else found.none()
        rows = page.rows(found)
        handed = tasks.handed_of(rows)
        return JsonAnswer(page.answer([task_shape(row, handed=handed[row.pk]) for row in rows]))

    def post(self, request: Request) -> JsonAnswer:
        body = resolved(self.model, self.read_body(), executors_of(request))
        task = tasks.create_task(self.model, **body, actor=actor_of(request))
        return JsonAnswer(task_shape(task, handed=0), status=201)


class TaskView(ApiView):
    """One task by id; DELETE marks it deleted."""

    scopes = {"GET": "read", "PUT": "operate", "PATCH": "operate", "DELETE": "operate"}
    problems = (404, 409)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def _find(self, request: Request, pk: int) -> Any:
        return tasks.find_task(self.model, pk, bound=executors_of(request))

    def get(self, request: Request, pk: int) -> JsonAnswer:
        return _answer(self._find(request, pk))

    def put(self, request: Request, pk: int) -> JsonAnswer:
        return self.patch(request, pk)

    def patch(self, request: Request, pk: int) -> JsonAnswer:
        task = self._find(request, pk)
        body = self.read_body()
        version = body.pop("version", None)
        changes = resolved(self.model, body, executors_of(request), current=task)
        return _answer(
            tasks.update_task(task=task, changes=changes, actor=actor_of(request), version=version)
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> NoContent:
        tasks.delete_task(task=self._find(request, pk), actor=actor_of(request))
        return NoContent()


def _lists(out: type[OnceTaskOut]) -> Any:
    return extend_schema_view(
        get=extend_schema(responses={200: out(many=True)}),
        post=extend_schema(responses={201: out}),
    )


def _shows(out: type[OnceTaskOut]) -> Any:
    return extend_schema_view(
        get=extend_schema(responses={200: out}),
        put=extend_schema(responses={200: out}),
        patch=extend_schema(responses={200: out}),
    )


@_lists(OnceTaskOut)
class OnceTasksView(TasksView):
    """The once tasks that stand, newest first; or a new one."""

    model = OnceTask
    bodies = {"post": TaskBody}


@_shows(OnceTaskOut)
class OnceTaskView(TaskView):
    """One once task by id; DELETE marks it deleted."""

    model = OnceTask
    bodies = {"put": OnceTaskChanges, "patch": OnceTaskChanges}


@_lists(RotateTaskOut)
class RotateTasksView(TasksView):
    """The rotations that stand, newest first; or a new one."""

    model = RotateTask
    bodies = {"post": RotateTaskBody}


@_shows(RotateTaskOut)
class RotateTaskView(TaskView):
    """One rotation by id; DELETE marks it deleted."""

    model = RotateTask
    bodies = {"put": RotateTaskChanges, "patch": RotateTaskChanges}


def _answer(task: OnceTask | RotateTask) -> JsonAnswer:
    return JsonAnswer(task_shape(task, handed=tasks.handed_of([task])[task.pk]))


def resolved(
    model: type[OnceTask] | type[RotateTask],
    body: dict[str, Any],
    bound: Collection[str] | None,
    *,
    current: OnceTask | RotateTask | None = None,
) -> dict[str, Any]:
    """The body with the executor and the template that its names stand for.

    Where there is no such one, Invalid tells all that is wrong with the body beside it.
    """
    mistakes = Mistakes()
    fields = {name: body[name] for name in body if name not in ("executor", "template")}
    with mistakes:
        if "executor" in body:
            fields["executor"] = _executor(body["executor"], bound)
    with mistakes:
        if "template" in body:
            name = body["template"]
            fields["template"] = None if name is None else templates.find_usable(name)
    if mistakes:
        with mistakes:
            judging.judge(model, fields, current=current)
        mistakes.raise_all()
    return fields


def _executor(name: str, bound: Collection[str] | None) -> Executor:
    try:
        return executors.find(name, bound=bound)
    except NotFound as error:
        raise Invalid.field("executor", f"{error.detail} Make it first.") from error
