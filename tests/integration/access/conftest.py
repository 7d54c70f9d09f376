"""A view behind a key, on a clock that stands still."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from apps.access import services
from apps.access.authentication import ApiKeyAuthentication, KeyLookup
from apps.access.models import ApiClient
from apps.access.rules.clients import Binding
from tests.frozen import FrozenClock

# Where `frozen_clock` stands at first.
START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def elapsed_of(moving: FrozenClock) -> Callable[[], float]:
    """A monotonic clock (seconds) that moves with the frozen one."""
    return lambda: (moving.instant - START).total_seconds()


def make(**changes: Any) -> tuple[ApiClient, str]:
    """A client that may read, and its key."""
    return services.create_client(
        **{"name": "Reader", "scopes": ["read"], "actor": "ada", **changes}
    )


def bearer(key: str) -> str:
    return f"Bearer {key}"


def basic(key: str) -> str:
    return "Basic " + base64.b64encode(key.replace(".", ":", 1).encode()).decode()


Call = Callable[..., HttpResponse]


@pytest.fixture
def call(frozen_clock: FrozenClock) -> Call:
    """Call a view with an Authorization header; it answers who called."""

    class Authentication(ApiKeyAuthentication):
        lookup = KeyLookup(elapsed_of(frozen_clock))

    class Whoami(APIView):
        authentication_classes = [Authentication]
        scopes = {"GET": "read"}
        bindings = frozenset[Binding]()

        def get(self, request: Request) -> Response:
            return Response({"client": request.auth.client_id})

    factory = APIRequestFactory()

    def get(
        header: str | None = None,
        *,
        path: str = "/",
        view: type[APIView] = Whoami,
        method: str = "get",
        address: str = "192.0.2.7",
    ) -> HttpResponse:
        extra = {"REMOTE_ADDR": address}
        if header is not None:
            extra["HTTP_AUTHORIZATION"] = header
        request = getattr(factory, method)(path, **extra)
        response: HttpResponse = view.as_view()(request)
        return response.render() if isinstance(response, Response) else response

    return get
