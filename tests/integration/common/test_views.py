"""Strict bodies and queries, through a whole view and its middleware."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common import problems
from apps.common.paging import PageQuery
from apps.common.serializers import Integer, JsonObject, StrictSerializer, Text
from apps.common.views import ApiView
from tests.integration.common.answers import problem_of


class OpenView(ApiView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()


class Body(StrictSerializer):
    uid = Text(max_length=20)
    params = JsonObject(required=False)
    count = Integer(min_value=0, max_value=9, default=1)


class EchoView(OpenView):
    bodies = {"post": Body, "patch": Body}
    queries = {"get": PageQuery}

    def get(self, request: Request) -> Response:
        return Response(self.query)

    def post(self, request: Request) -> Response:
        return Response(self.read_body())

    def patch(self, request: Request) -> Response:
        return Response(self.read_body())


class BatchView(OpenView):
    body_limit = "batch"

    def post(self, request: Request) -> Response:
        return Response({"items": len(request.data["items"])})


class BuggyView(OpenView):
    def get(self, request: Request) -> Response:
        raise ZeroDivisionError("a bug")


urlpatterns = [
    path("api/buggy/", BuggyView.as_view()),
    path("api/echo/", EchoView.as_view()),
    path("api/batch/", BatchView.as_view()),
]
handler404 = problems.handler404

pytestmark = pytest.mark.urls(__name__)


def post(client: Client, body: bytes | str, address: str = "/api/echo/", **extra: Any) -> Any:
    return client.generic("POST", address, body, **{"content_type": "application/json", **extra})


def test_sound_body_reaches_the_view(client: Client) -> None:
    response = post(client, '{"uid":"uid_ä","params":{"a":[1]}}')

    assert response.json() == {"uid": "uid_ä", "params": {"a": [1]}, "count": 1}


def test_unsound_body_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for body, status, code in [
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b"null", 400, "malformed"),
        (b'["uid"]', 400, "malformed"),
        (b"\xef\xbb\xbf{}", 400, "malformed"),
        (b"[" * 5000, 400, "too_deep"),
        (b'{"uid":"a","uid":"b"}', 400, "duplicate_key"),
        (b'{"uid":"a\\u0000"}', 400, "bad_text"),
        (b'{"uid":"a","count":1e999}', 400, "invalid"),
        (b'{"uid":17}', 400, "invalid"),
        (b'{"uid":"a","user":"b"}', 400, "unknown_field"),
        (b'{"uid":"a"}' + b" " * 262_144, 413, "too_large"),
    ]:
        with subtests.test(body=body):
            problem = problem_of(post(client, body))

            assert (problem["status"], problem["code"]) == (status, code)


def test_patch_checks_only_what_was_sent(client: Client) -> None:
    response = client.generic("PATCH", "/api/echo/", '{"count":4}', content_type="application/json")

    assert response.json() == {"count": 4}


def test_other_content_type_is_415(client: Client, subtests: pytest.Subtests) -> None:
    for content_type in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json; charset=hex",
        "application/json; charset=nonsense",
    ]:
        with subtests.test(content_type=content_type):
            response = post(client, b'{"uid":"a"}', content_type=content_type)

            assert problem_of(response)["code"] == "unsupported_media_type"


def test_compressed_body_is_415(client: Client) -> None:
    response = post(client, b"\x1f\x8b\x08", headers={"content-encoding": "gzip"})

    assert problem_of(response)["code"] == "unsupported_media_type"


def test_batch_body_may_be_larger_than_a_single_one(client: Client) -> None:
    items = [{"memo": "x" * 100_000} for _ in range(10)]

    assert post(client, json.dumps({"items": items}), "/api/batch/").json() == {"items": 10}
    too_large = post(client, b"{}" + b" " * (8 * 1024 * 1024), "/api/batch/")
    assert problem_of(too_large)["code"] == "too_large"


def test_answer_is_json_whatever_is_accepted(client: Client, subtests: pytest.Subtests) -> None:
    for accept in ["text/html", "application/xml", "image/*;q=0.1", "nonsense"]:
        with subtests.test(accept=accept):
            response = client.get("/api/echo/", headers={"accept": accept})

            assert response["Content-Type"] == "application/json"
            assert response.json()["limit"] == 50


def test_wrong_query_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for query, code in [
        ("limit=0", "invalid"),
        ("limit=1&limit=2", "invalid"),
        ("offset=10", "unknown_field"),
        ("format=json", "unknown_field"),
        ("key=" + "k" * 10_000, "unknown_field"),
    ]:
        with subtests.test(query=query):
            assert problem_of(client.get(f"/api/echo/?{query}"))["code"] == code


def test_method_that_takes_no_query_refuses_every_parameter(client: Client) -> None:
    response = post(client, b'{"uid":"a"}', "/api/echo/?limit=1")

    assert problem_of(response)["code"] == "unknown_field"


def test_query_of_too_many_parameters_is_400(client: Client) -> None:
    response = client.get("/api/echo/?" + "&".join(f"a{n}=" for n in range(1100)))

    assert problem_of(response)["status"] == 400


def test_head_is_checked_like_get(client: Client) -> None:
    assert client.head("/api/echo/?limit=5").status_code == 200
    assert client.head("/api/echo/?limit=0").status_code == 400


def test_method_that_the_view_lacks_is_refused_with_those_it_has(
    client: Client, subtests: pytest.Subtests
) -> None:
    for method in ["GET", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]:
        with subtests.test(method=method):
            response = client.generic(method, "/api/batch/")

            assert problem_of(response)["code"] == "method_not_allowed"
            assert response["Allow"] == "POST"


@pytest.mark.parametrize("debug", [False, True])
def test_bug_reaches_the_log_as_it_is(client: Client, settings: Any, debug: bool) -> None:
    settings.DEBUG = debug

    with pytest.raises(ZeroDivisionError, match="a bug"):
        client.get("/api/buggy/")
