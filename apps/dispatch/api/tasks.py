"""Planning over REST: once tasks and rotations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from rest_framework.request import Request

from apps.access.bindings import actor_of, executors_of, masks_payload, unmask
from apps.access.rules.clients import Binding
from apps.common.api import paging
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import Integer, ReasonText, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer, NoContent
from apps.common.errors import Invalid, Mistakes, NotFound
from apps.common.filtering import RowFilter
from apps.dispatch.api.rule_body import RuleBody, ZoneName
from apps.dispatch.api.shapes import (
    ArchivedTaskOut,
    OnceTaskActOut,
    OnceTaskOut,
    RotateTaskActOut,
    RotateTaskOut,
    task_field,
)
from apps.dispatch.models import ArchivedTask, Executor, OnceTask, RotateTask
from apps.dispatch.rules import names
from apps.dispatch.services import archive, availability, executors, tasks, templates, validation
from apps.dispatch.services.filtered import (
    ArchivedTaskFilters,
    RestOnceTaskFilters,
    RestTaskFilters,
)
from apps.journal.models import Source
from apps.journal.services.undo import act_of

# Rotations that are looked at for a page of one state: the database does not know it.
MAX_ROTATIONS = 500


class TaskQuery(FilterQuery, PageQuery):
    filters = RestTaskFilters


class OnceTaskQuery(TaskQuery):
    filters = RestOnceTaskFilters


class TaskBody(StrictSerializer):
    """The fields that a planner sets."""

    model: ClassVar[type[OnceTask] | type[RotateTask]] = OnceTask
    # Fields that have no default here.
    demanded: ClassVar[frozenset[str]] = frozenset()
    help_texts: ClassVar[dict[str, str]] = {
        "start_at": "A new task starts now when it is absent.",
        "dispatch_times": "null (mode multi only): every member once.",
        "misfire": "Which missed occurrences may still be handed out.",
    }

    executor = Text(max_length=names.MAX_CHARACTERS)
    template = Text(max_length=templates.MAX_NAME, required=False, allow_null=True, default=None)

    def get_fields(self) -> dict[str, Any]:
        """The fields of the model, and among them the declared fields."""
        declared = super().get_fields()
        fields = {
            name: declared.pop(name) if name in declared else self._field(name)
            for name in self.model.editable
        }
        return {**fields, **declared}

    def _field(self, name: str) -> Any:
        column: Any = self.model._meta.get_field(name)
        options: dict[str, Any] = {"help_text": self.help_texts.get(name)}
        if name in self.demanded:
            return task_field(self.model, name, **options)
        if column.null or column.has_default():
            options |= {"required": False, "allow_null": column.null, "default": column.default}
        if column.null and not column.has_default():
            options["default"] = None
        if name == "start_at":
            options["required"] = False
        return task_field(self.model, name, **options)


class RotateTaskBody(TaskBody):
    model = RotateTask

    rule = RuleBody()
    time_zone = ZoneName(max_length=64, required=False, help_text="TIME_ZONE, when absent.")


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


class WholeOnceTask(OnceTaskChanges):
    """The body of PUT, with the status: without one a paused task would go on."""

    demanded = frozenset({"status"})


class WholeRotateTask(RotateTaskChanges):
    """The body of PUT, with the status, as for a once task."""

    demanded = frozenset({"status"})


def task_json(
    request: Request, task: OnceTask | RotateTask, shape: type[OnceTaskOut] | None = None
) -> dict[str, Any]:
    shape = shape or (RotateTaskOut if isinstance(task, RotateTask) else OnceTaskOut)
    return shape.of(task, masks=masks_payload(request))


class TasksView(ApiView):
    """The tasks of a kind that are not deleted, newest first; or a new one."""

    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    queries: ClassVar[Mapping[str, type[TaskQuery]]] = {"get": TaskQuery}
    problems = (409,)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        bound = executors_of(request)
        found: Any = self.model.objects.not_deleted().select_related("executor", "template")
        if bound is not None:
            found = found.within(bound)
        query = self.queries["get"]
        wanted = query.wanted(self.query)
        found = query.filters.narrow(found, wanted.only(["executor", "status", "part_of"]))
        rows = self._rows(page, found, wanted.get("state"), wanted.only(["where"]))
        return JsonAnswer(page.answer([task_json(request, row) for row in rows]))

    def _rows(self, page: KeysetPage, found: Any, state: str | None, where: RowFilter) -> list[Any]:
        possible, chosen = found, RestTaskFilters.narrow(found, where)
        if state is not None and self.model is RotateTask:

            def keep(rows: list[Any]) -> list[Any]:
                if where.given:
                    numbers = chosen.filter(pk__in=[row.pk for row in rows])
                    held = {*numbers.values_list("pk", flat=True)}
                    rows = [row for row in rows if row.pk in held]
                return availability.in_state(rows, state)

            return page.rows_kept(found, keep, limit=MAX_ROTATIONS)
        if state is not None:
            possible = availability.once_by_time(found, state)
            chosen = availability.once_in_state(chosen, state)
        if state is None and not where.given:
            rows: list[Any] = page.rows(found)
        else:
            rows = page.rows_among(possible, chosen, limit=paging.MAX_EXAMINED)
        availability.read_availability(rows)
        return rows

    def post(self, request: Request) -> JsonAnswer:
        body = resolved(self.model, self.read_body(), request)
        task = tasks.create_task(self.model, **body, actor=actor_of(request))
        availability.read_availability([task])
        return JsonAnswer(task_json(request, task), status=201)


class ArchivedTaskQuery(FilterQuery, PageQuery):
    filters = ArchivedTaskFilters


class ArchivedTasksView(ApiView):
    """The tasks in the archive, those that went there last first.

    A page of a filtered list may be short or empty although `next` is not null: then nothing
    matched among the tasks examined so far.
    """

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": ArchivedTaskQuery}
    answers = {"get": ArchivedTaskOut(many=True)}

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        bound = executors_of(request)
        every = ArchivedTask.objects.select_related("executor")
        found = every if bound is None else every.within(bound)
        found = ArchivedTaskFilters.narrow(found, ArchivedTaskQuery.wanted(self.query))
        rows = page.rows_among(every, found, limit=paging.MAX_EXAMINED)
        return JsonAnswer(page.answer([ArchivedTaskOut.of(row) for row in rows]))


class RestoreBody(StrictSerializer):
    reason = ReasonText(max_length=500)


class RestoreView(ApiView):
    """Bring a task back from the archive: under its number, and paused."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": RestoreBody}
    problems = (404, 409)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def post(self, request: Request, pk: int) -> JsonAnswer:
        body = self.read_body()
        source = str(self.model.source)
        row = archive.find_archived_task(source, pk, bound=executors_of(request))
        task = archive.restore_task(
            self.model, number=row.task, actor=actor_of(request), reason=body["reason"]
        )
        availability.read_availability([task])
        return JsonAnswer(task_json(request, task))


class TaskView(ApiView):
    """One task by id; DELETE marks it deleted."""

    scopes = {"GET": "read", "PUT": "operate", "PATCH": "operate", "DELETE": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    problems = (404, 409)
    model: ClassVar[type[OnceTask] | type[RotateTask]]

    def _find(self, request: Request, pk: int) -> Any:
        return archive.find_live_task(self.model, pk, bound=executors_of(request))

    def _answer(
        self, request: Request, task: Any, shape: type[OnceTaskOut] | None = None
    ) -> JsonAnswer:
        availability.read_availability([task])
        return JsonAnswer(task_json(request, task, shape))

    def _act(self, request: Request, task: Any) -> int | None:
        """What takes the last change of the task back, if the key has made it."""
        name = task.journal_name
        return act_of(Source.PLAN, task.pk, actor_of(request), type_or_task=name)

    def get(self, request: Request, pk: int) -> JsonAnswer:
        return self._answer(request, self._find(request, pk))

    def put(self, request: Request, pk: int) -> JsonAnswer:
        return self.patch(request, pk)

    def patch(self, request: Request, pk: int) -> JsonAnswer:
        task = self._find(request, pk)
        body = self.read_body()
        version = body.pop("version", None)
        changes = resolved(self.model, body, request, current=task)
        changed = tasks.update_task(
            task=task, changes=changes, actor=actor_of(request), version=version
        )
        changed.undo = self._act(request, changed)
        return self._answer(request, changed, self.answers["patch"])

    def delete(self, request: Request, pk: int) -> NoContent:
        task = self._find(request, pk)
        tasks.delete_task(task=task, actor=actor_of(request))
        act = self._act(request, task)
        return NoContent(headers={} if act is None else {"Undo": str(act)})


class OnceTasksView(TasksView):
    """The once tasks that are not deleted, newest first; or a new one."""

    model = OnceTask
    queries = {"get": OnceTaskQuery}
    bodies = {"post": TaskBody}
    answers = {"get": OnceTaskOut(many=True), "post": {201: OnceTaskOut}}


class OnceTaskView(TaskView):
    """One once task by id; DELETE marks it deleted, and the header `Undo` has what takes that
    back."""

    model = OnceTask
    bodies = {"put": WholeOnceTask, "patch": OnceTaskChanges}
    answers = {
        "get": OnceTaskOut,
        "put": OnceTaskActOut,
        "patch": OnceTaskActOut,
        "delete": {204: None},
    }


class OnceTaskRestoreView(RestoreView):
    """Bring a once task back from the archive: under its number, and paused."""

    model = OnceTask
    answers = {"post": OnceTaskOut}


class RotateTasksView(TasksView):
    """The rotations that are not deleted, newest first; or a new one."""

    model = RotateTask
    bodies = {"post": RotateTaskBody}
    answers = {"get": RotateTaskOut(many=True), "post": {201: RotateTaskOut}}


class RotateTaskView(TaskView):
    """One rotation by id; DELETE marks it deleted, and the header `Undo` has what takes that
    back."""

    model = RotateTask
    bodies = {"put": WholeRotateTask, "patch": RotateTaskChanges}
    answers = {
        "get": RotateTaskOut,
        "put": RotateTaskActOut,
        "patch": RotateTaskActOut,
        "delete": {204: None},
    }


class RotateTaskRestoreView(RestoreView):
    """Bring a rotation back from the archive: under its number, paused, and without a past."""

    model = RotateTask
    answers = {"post": RotateTaskOut}


def resolved(
    model: type[OnceTask] | type[RotateTask],
    body: dict[str, Any],
    request: Request,
    *,
    current: OnceTask | RotateTask | None = None,
) -> dict[str, Any]:
    """The body with the executor and the template in place of their names, and with the secrets of
    `current` in place of the masks that the key was shown.

    When one does not exist, Invalid has all other errors of the body as well.
    """
    mistakes = Mistakes()
    fields = {name: body[name] for name in body if name not in ("executor", "template")}
    with mistakes:
        unmask(request, fields, "params", None if current is None else current.params)
    with mistakes:
        if "executor" in body:
            fields["executor"] = _executor(body["executor"], executors_of(request))
    with mistakes:
        if "template" in body:
            name = body["template"]
            fields["template"] = None if name is None else templates.find_usable(name)
    if mistakes:
        with mistakes:
            validation.validate(model, fields, current=current)
        mistakes.raise_all()
    return fields


def _executor(name: str, bound: Collection[str] | None) -> Executor:
    try:
        return executors.find(name, bound=bound)
    except NotFound as error:
        raise Invalid.field("executor", f"{error.detail} Make it first.") from error
