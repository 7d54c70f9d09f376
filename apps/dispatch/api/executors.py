"""Planning over REST: executors and members."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework.request import Request

from apps.access.bindings import actor_of, executors_of
from apps.access.rules.clients import Binding
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import Boolean, Choice, Integer, Names, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Invalid
from apps.dispatch.api.shapes import ExecutorOut, MembersOut
from apps.dispatch.models import Executor
from apps.dispatch.rules import names
from apps.dispatch.services import executors
from apps.dispatch.services.filtered import ExecutorFilters

READ_AND_PLAN = {"GET": "read", "POST": "operate", "PUT": "operate", "PATCH": "operate"}


class ExecutorQuery(FilterQuery, PageQuery):
    filters = ExecutorFilters


class ExecutorChanges(StrictSerializer):
    title = Text(max_length=executors.MAX_TITLE, allow_blank=True, required=False, default="")
    enabled = Boolean(required=False, default=True)
    version = Integer(min_value=1, max_value=2**31 - 1, required=False)


class WholeExecutor(ExecutorChanges):
    """The body of PUT, with `enabled`: without it a disabled executor would be enabled."""

    enabled = Boolean()


@extend_schema_field(
    {"type": "string", "pattern": f"^{names.PATTERN}$", "maxLength": names.MAX_CHARACTERS}
)
class NewName(Text):
    """The name of an executor to be; the rules of names check it."""


class ExecutorBody(StrictSerializer):
    name = NewName(max_length=names.MAX_CHARACTERS)
    kind = Choice(choices=Executor.Kind.choices, required=False)
    title = Text(max_length=executors.MAX_TITLE, allow_blank=True, required=False, default="")
    enabled = Boolean(required=False, default=True)


class MembersBody(StrictSerializer):
    add = Names(max_items=executors.MAX_MEMBERS_AT_ONCE, required=False, default=list)
    remove = Names(max_items=executors.MAX_MEMBERS_AT_ONCE, required=False, default=list)


class ExecutorsView(ApiView):
    """All executors, newest first; or a new one."""

    scopes = READ_AND_PLAN
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": ExecutorQuery}
    bodies = {"post": ExecutorBody}
    answers = {"get": ExecutorOut(many=True), "post": {201: ExecutorOut}}
    problems = (409,)

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        bound = executors_of(request)
        found = Executor.objects.all() if bound is None else Executor.objects.within(bound)
        found = ExecutorFilters.narrow(found, ExecutorQuery.wanted(self.query))
        return JsonAnswer(page.answer([ExecutorOut.of(row) for row in page.rows(found)]))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        kind = names.kind_of(body["name"])
        if body.pop("kind", kind) != kind:
            raise Invalid.field("kind", f"{body['name']} is a {kind}, as its prefix says.")
        _require_bound(request, body["name"])
        executor = executors.create_executor(**body, actor=actor_of(request))
        return JsonAnswer(ExecutorOut.of(executor), status=201)


class ExecutorView(ApiView):
    """One executor by name."""

    scopes = READ_AND_PLAN
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"put": WholeExecutor, "patch": ExecutorChanges}
    answers = {"get": ExecutorOut, "put": ExecutorOut, "patch": ExecutorOut}
    problems = (404, 409)

    def get(self, request: Request, name: str) -> JsonAnswer:
        return JsonAnswer(ExecutorOut.of(executors.find(name, bound=executors_of(request))))

    def put(self, request: Request, name: str) -> JsonAnswer:
        return self.patch(request, name)

    def patch(self, request: Request, name: str) -> JsonAnswer:
        executor = executors.find(name, bound=executors_of(request))
        body = self.read_body()
        executor = executors.update_executor(
            executor=executor,
            version=body.pop("version", None),
            changes=body,
            actor=actor_of(request),
        )
        return JsonAnswer(ExecutorOut.of(executor))


class MembersView(ApiView):
    """The users of a group; POST adds and removes."""

    operations = {"post": "change_executor_members"}
    scopes = READ_AND_PLAN
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": MembersBody}
    answers = {"get": MembersOut, "post": MembersOut}
    body_limit = "batch"
    problems = (404, 409)

    def get(self, request: Request, name: str) -> JsonAnswer:
        group = executors.find(name, bound=executors_of(request))
        executors.require_group(group)
        return JsonAnswer({"members": executors.member_names(group)})

    def post(self, request: Request, name: str) -> JsonAnswer:
        body = self.read_body()
        group = executors.find(name, bound=executors_of(request))
        members = executors.change_members(
            group=group, **body, actor=actor_of(request), bound=executors_of(request)
        )
        return JsonAnswer({"members": members})


def _require_bound(request: Request, name: str) -> None:
    """A key bound to executors cannot make others."""
    bound = executors_of(request)
    if bound is not None and name not in bound:
        raise Invalid.field("name", f"This key is bound to other executors than {name}.")
