"""What the OpenAPI document says about keys."""

from __future__ import annotations

import pytest
from django.urls import path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.rules.clients import Binding


class Tasks(APIView):
    """A view behind a key."""

    scopes = {"GET": "read"}
    bindings = frozenset[Binding]()

    @extend_schema(responses={200: None})
    def get(self, request: Request) -> Response:
        return Response()


@pytest.mark.filterwarnings("error")
def test_document_offers_bearer_or_basic_for_a_view_behind_a_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = SchemaGenerator(patterns=[path("api/v1/tasks/", Tasks.as_view())]).get_schema(
        request=None, public=True
    )

    assert document["paths"]["/api/v1/tasks/"]["get"]["security"] == [
        {"bearerKey": []},
        {"basicKey": []},
    ]
    schemes = document["components"]["securitySchemes"]
    assert {name: scheme["scheme"] for name, scheme in schemes.items()} == {
        "bearerKey": "bearer",
        "basicKey": "basic",
    }
    assert "could not resolve authenticator" not in capsys.readouterr().err
