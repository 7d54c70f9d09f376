"""The OpenAPI document says what views check and how they fail, declared once."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.validation import validate_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.access.rules.clients import Binding
from apps.common.api.paging import PageQuery
from apps.common.api.serializer_fields import (
    Choice,
    DecimalId,
    Integer,
    JsonObject,
    Name,
    Names,
    Text,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView

pytestmark = pytest.mark.both


class ThingQuery(PageQuery):
    kind = Choice(choices=["a", "b"], required=False)


class ThingBody(StrictSerializer):
    name = Name(max_length=9)
    title = Text(max_length=40)
    memo = Text(max_length=40, allow_blank=True, required=False)
    count = Integer(min_value=1, max_value=100, default=5)
    number = DecimalId(required=False)
    params = JsonObject(required=False)
    members = Names(max_items=7, required=False)


class ThingOut(serializers.Serializer[Any]):
    name = serializers.CharField()


class ThingsView(ApiView):
    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset[Binding]()
    queries = {"get": ThingQuery}
    bodies = {"post": ThingBody}
    problems = (409, 422)

    @extend_schema(responses={200: ThingOut(many=True)})
    def get(self, request: Request) -> Response:
        return Response()

    @extend_schema(responses={201: ThingOut})
    def post(self, request: Request) -> Response:
        return Response()


class OpenThingView(ApiView):
    operations = {"post": "open_thing"}
    authentication_classes = ()
    permission_classes = ()

    @extend_schema(responses={204: None})
    def post(self, request: Request, name: str) -> Response:
        return Response(status=204)


urlpatterns = [
    path("api/v1/things/", ThingsView.as_view()),
    path("api/v1/things/<str:name>/", OpenThingView.as_view()),
]


@pytest.fixture
def document() -> dict[str, Any]:
    generator: Any = SchemaGenerator(patterns=urlpatterns)
    document: dict[str, Any] = generator.get_schema(request=None, public=True)
    validate_schema(document)
    return document


def operation(document: dict[str, Any], method: str, address: str) -> dict[str, Any]:
    return document["paths"][address][method]


def test_problem_answer_is_problem_json_with_the_headers_of_its_status(
    document: dict[str, Any],
) -> None:
    components = document["components"]
    answer = operation(document, "get", "/api/v1/things/")["responses"]["429"]

    assert answer == {"$ref": "#/components/responses/Problem429"}
    documented = components["responses"]["Problem429"]
    assert documented["content"]["application/problem+json"]["schema"] == {
        "$ref": "#/components/schemas/Problem"
    }
    assert "Retry-After" in documented["headers"]
    assert "WWW-Authenticate" in components["responses"]["Problem401"]["headers"]
    assert set(components["schemas"]["Problem"]["required"]) >= {"code", "errors", "request_id"}


def test_body_documents_the_bounds_that_are_checked(document: dict[str, Any]) -> None:
    body = operation(document, "post", "/api/v1/things/")["requestBody"]

    assert set(body["content"]) == {"application/json"}
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = document["components"]["schemas"][name]
    documented = schema["properties"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["name", "title"]
    assert documented["name"]["pattern"].startswith("^[A-Za-z0-9_")
    assert documented["name"]["maxLength"] == 9
    assert documented["title"]["pattern"] == r"\S"
    assert "pattern" not in documented["memo"]
    assert (documented["count"]["minimum"], documented["count"]["maximum"]) == (1, 100)
    # TypeScript would require it of senders.
    assert "default" not in documented["count"]
    assert documented["count"]["description"] == "When absent: 5."
    assert documented["number"]["pattern"] == "^[0-9]{1,19}$"
    assert documented["params"]["type"] == "object"
    assert documented["members"]["maxItems"] == 7
    assert "requestBody" not in operation(document, "post", "/api/v1/things/{name}/")


def test_list_answer_is_a_page(document: dict[str, Any]) -> None:
    answer = operation(document, "get", "/api/v1/things/")["responses"]["200"]

    name = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    page = document["components"]["schemas"][name]
    assert page["required"] == ["next", "results"]
    assert page["properties"]["next"]["nullable"] is True
    assert page["properties"]["results"]["items"] == {"$ref": "#/components/schemas/ThingOut"}
