"""Planning over REST: templates and their versions."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from apps.access.bindings import actor_of
from apps.access.rules.clients import Binding
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import JsonObject, Name
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.json.schema import check_schema
from apps.dispatch.api.executors import READ_AND_PLAN
from apps.dispatch.api.shapes import TemplateOut, require
from apps.dispatch.models import Template
from apps.dispatch.services import templates


class Schema(JsonObject):
    """A JSON object that is a JSON Schema."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        schema = super().to_internal_value(data)
        require(check_schema, schema, field="schema")
        return schema


class SchemaBody(StrictSerializer):
    schema = Schema(help_text="A JSON Schema 2020-12 of type object.")


class TemplateBody(SchemaBody):
    name = Name(max_length=templates.MAX_NAME)


class TemplatesView(ApiView):
    """The newest version of every template, listed by its first one; or a new template."""

    scopes = READ_AND_PLAN
    bindings = frozenset[Binding]()
    queries = {"get": PageQuery}
    bodies = {"post": TemplateBody}
    answers = {"get": TemplateOut(many=True), "post": {201: TemplateOut}}
    problems = (409,)

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        rows = page.rows(
            Template.objects.oldest().only("name"), Template.objects.newest().in_place_of
        )
        return JsonAnswer(page.answer([TemplateOut.of(row) for row in rows]))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        template = templates.put_template(**body, actor=actor_of(request), new=True)
        return JsonAnswer(TemplateOut.of(template), status=201)


class TemplateView(ApiView):
    """One template by name; PUT makes its next version, used versions stay."""

    scopes = READ_AND_PLAN
    bindings = frozenset[Binding]()
    bodies = {"put": SchemaBody}
    answers = {"get": TemplateOut, "put": TemplateOut}
    problems = (404, 409)

    def get(self, request: Request, name: str) -> JsonAnswer:
        return JsonAnswer(TemplateOut.of(templates.find(name)))

    def put(self, request: Request, name: str) -> JsonAnswer:
        body = self.read_body()
        template = templates.put_template(name=name, **body, actor=actor_of(request))
        return JsonAnswer(TemplateOut.of(template))
