"""Which methods of a view a key may call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import services
from apps.access.rules.clients import Binding, Scope
from tests.integration.access.conftest import Call, bearer

pytestmark = pytest.mark.django_db


class Tasks(APIView):
    """Reads with one scope and writes with another."""

    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset[Binding]()

    def get(self, request: Request) -> Response:
        return Response()

    def post(self, request: Request) -> Response:
        return Response()


def key_with(*scopes: str) -> str:
    return services.create_client(name="Key", scopes=scopes, actor="ada")[1]


def test_key_without_the_scope_is_refused_naming_the_one_it_lacks(call: Call) -> None:
    key = key_with("read", "pull")

    response = call(bearer(key), view=Tasks, method="post")

    assert response.status_code == 403
    problem = json.loads(response.content)
    assert problem["code"] == "forbidden"
    assert problem["detail"] == (
        f"The key {key.partition('.')[0]} lacks the scope operate; ask an operator to add it."
    )


def test_options_are_open_to_any_scope_of_the_view(call: Call) -> None:
    for scope, status in (("read", 200), ("operate", 200), ("pull", 403)):
        response = call(bearer(key_with(scope)), view=Tasks, method="options")

        assert response.status_code == status, scope


def test_view_that_forgets_its_scopes_is_a_loud_mistake(
    call: Call, subtests: pytest.Subtests
) -> None:
    class Careless(APIView):
        def get(self, request: Request) -> Response:
            return Response()

    key = bearer(key_with(*Scope))
    for scopes, message in (
        (None, "Careless declares no scopes; write scopes = {'GET': 'read'}"),
        ("read", "Careless declares no scopes"),
        ({}, r"leave out \['GET'\]"),
        ({"POST": "read"}, r"leave out \['GET'\]"),
        ({"GET": "admin"}, r"name the unknown \['admin'\]"),
    ):
        if scopes is not None:
            Careless.scopes = scopes  # type: ignore[attr-defined]
        for header in (None, key):
            with (
                subtests.test(scopes=scopes, has_key=bool(header)),
                pytest.raises(ImproperlyConfigured, match=message),
            ):
                call(header, view=Careless)


def test_view_that_forgets_its_bindings_is_a_loud_mistake(call: Call) -> None:
    class Careless(APIView):
        scopes = {"GET": "read"}

        def get(self, request: Request) -> Response:
            return Response()

    with pytest.raises(ImproperlyConfigured, match="Careless declares no bindings"):
        call(bearer(key_with(*Scope)), view=Careless)


def test_view_without_permissions_needs_no_scopes(call: Call) -> None:
    class Open(APIView):
        permission_classes: list[Any] = []

        def get(self, request: Request) -> Response:
            return Response()

    assert call(view=Open).status_code == 200
    assert call(bearer(key_with("pull")), view=Open).status_code == 200
