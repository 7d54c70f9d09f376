"""The baselines over HTTP: bare Django views that run recorded statements, and a trivial DRF view.

Served by a process of its own with BENCHMARK_STATEMENTS naming the JSON file of the recorded ones.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
# The only middleware: it sets Content-Length, without which a connection is not kept open.
settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
settings.ROOT_URLCONF = "tests.benchmark.bare"
django.setup()

from django.urls import path  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from apps.common import ids  # noqa: E402
from tests.benchmark.statements import Statement, replay  # noqa: E402

STATEMENTS: dict[str, list[Statement]] = {
    name: [
        Statement(sql, parameters, {int(at): name for at, name in named.items()}, *rest)
        for sql, parameters, named, *rest in recorded
    ]
    for name, recorded in json.loads(Path(os.environ["BENCHMARK_STATEMENTS"]).read_text()).items()
}


def bare(request: HttpRequest, name: str) -> HttpResponse:
    """Run the statements of that name with the values in the body."""
    values: dict[str, Any] = {"journal": ids.next_id(), **json.loads(request.body)}
    values.setdefault("number", ids.next_id())
    replay(STATEMENTS[name], values)
    return JsonResponse({"number": str(values["number"]), "params": {}, "redo": 0})


class Trivial(APIView):
    """DRF with nothing to do."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    def post(self, request: Request) -> Response:
        return Response({})


urlpatterns = [path("trivial/", Trivial.as_view()), path("<str:name>/", bare)]

# It loads these addresses as soon as it is imported.
from taskplatform.rsgi import Application  # noqa: E402

application = Application(get_wsgi_application(), threads=4, trusted=[])
