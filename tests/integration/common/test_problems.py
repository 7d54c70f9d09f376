"""Failures of every origin, as programs and browsers see them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.core.exceptions import (
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
    ValidationError,
)
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.views.decorators.http import require_POST
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api import problems
from apps.common.api.views import ApiView
from apps.common.errors import (
    BadText,
    Invalid,
    NotFound,
    ReplayConflict,
    Throttled,
    TooLarge,
    Unavailable,
)
from apps.dispatch.errors import Closed
from tests.integration.common.answers import problem_of

RAISED: dict[str, Exception] = {}


class OpenView(ApiView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()


class RaisingView(OpenView):
    def get(self, request: Request) -> Response:
        raise RAISED["now"]


def raising_page(request: HttpRequest) -> HttpResponse:
    raise RAISED["now"]


@require_POST
def posting(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{len(request.POST)}")


urlpatterns = [
    path("api/v1/raise/", RaisingView.as_view()),
    path("api/plain/", raising_page),
    path("api/posting/", posting),
    path("page/", raising_page),
    path("form/", posting),
]
handler400 = problems.handler400
handler403 = problems.handler403
handler404 = problems.handler404
handler500 = problems.handler500

pytestmark = pytest.mark.urls(__name__)


def raised(
    client: Client, error: Exception, address: str = "/api/v1/raise/", **headers: str
) -> Any:
    RAISED["now"] = error
    client.raise_request_exception = False
    return client.get(address, headers=headers)


# --- errors that are the caller's to read ---------------------------------------------------------
def test_exception_in_a_view_is_a_problem_without_internals(
    client: Client, subtests: pytest.Subtests
) -> None:
    """Failures look alike whatever they come from, and reveal nothing internal."""
    for error, status, code in [
        (Invalid("x"), 400, "invalid"),
        (BadText("x"), 400, "bad_text"),
        (NotFound("x"), 404, "not_found"),
        (Closed("x"), 409, "closed"),
        (ReplayConflict("x"), 422, "conflict"),
        (TooLarge("x"), 413, "too_large"),
        (Unavailable("x"), 503, "unavailable"),
        (drf.NotAuthenticated(), 401, "not_authenticated"),
        (drf.PermissionDenied(), 403, "forbidden"),
        (drf.MethodNotAllowed("GET"), 405, "method_not_allowed"),
        (drf.NotAcceptable(), 406, "invalid"),
        (drf.UnsupportedMediaType("x"), 415, "unsupported_media_type"),
        (drf.ParseError(), 400, "malformed"),
        (drf.Throttled(7), 429, "throttled"),
        (drf.APIException("inside"), 500, "internal"),
        (Http404("inside"), 404, "not_found"),
        (PermissionDenied("inside"), 403, "forbidden"),
        (SuspiciousOperation("inside"), 400, "invalid"),
        (RequestDataTooBig("inside"), 413, "too_large"),
        (TooManyFieldsSent("inside"), 400, "invalid"),
        (ValidationError("x"), 400, "invalid"),
        (OperationalError(2013, "inside lost connection"), 503, "unavailable"),
        (OperationalError("database is locked"), 503, "unavailable"),
        (InterfaceError("inside closed"), 503, "unavailable"),
        (OperationalError("database or disk is full"), 507, "unavailable"),
        (OperationalError(1114, "The table 'inside' is full"), 507, "unavailable"),
        (IntegrityError("inside duplicate"), 500, "internal"),
        (RuntimeError("inside"), 500, "internal"),
    ]:
        for address in ["/api/v1/raise/", "/api/plain/"]:
            with subtests.test(error=error, address=address):
                response = raised(client, error, address)

                problem = problem_of(response)
                assert (problem["status"], problem["code"]) == (status, code)
                assert "inside" not in response.content.decode()
                assert "Traceback" not in response.content.decode()


def test_refused_for_now_says_when_to_come_back(client: Client, subtests: pytest.Subtests) -> None:
    for error, seconds in [
        (Throttled(retry_after=6.2), {7}),
        (drf.Throttled(30), {30}),
        (drf.Throttled(), {2, 3, 4, 5}),
        (Unavailable(), {2, 3, 4, 5}),
        (OperationalError("gone"), {2, 3, 4, 5}),
    ]:
        with subtests.test(error=error):
            assert int(raised(client, error)["Retry-After"]) in seconds


def test_those_refused_together_do_not_all_come_back_together(client: Client) -> None:
    """F24: the herd is spread."""
    waits = {raised(client, Unavailable())["Retry-After"] for _ in range(60)}

    assert len(waits) > 1


# --- bugs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("address", ["/api/v1/raise/", "/api/plain/"])
def test_bug_is_logged_with_its_traceback_under_the_id_that_the_caller_got(
    client: Client, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    from apps.common.logs import JsonFormatter

    lines: list[dict[str, Any]] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(JsonFormatter().format(record)))

    handler = Lines()
    logging.getLogger("django.request").addHandler(handler)
    try:
        response = raised(client, RuntimeError("the reason"), address)
    finally:
        logging.getLogger("django.request").removeHandler(handler)

    (line,) = lines
    assert line["level"] == "ERROR"
    assert line["request_id"] == problem_of(response)["request_id"]
    assert "RuntimeError: the reason" in line["exception"]


@pytest.mark.parametrize("address", ["/api/v1/raise/", "/api/plain/", "/page/"])
def test_database_away_is_one_line_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """F6: while the database is away every request comes here."""
    raised(client, OperationalError(2013, "Lost connection"), address)

    (record,) = [r for r in caplog.records if r.name == "apps.common.api.problems"]
    assert record.levelname == "WARNING"
    assert "Lost connection" in record.getMessage()
    assert not any(r.exc_info for r in caplog.records)


def test_debug_page_of_django_never_reaches_a_program(client: Client, settings: Any) -> None:
    settings.DEBUG = True

    assert problem_of(raised(client, RuntimeError("inside"), "/api/plain/"))["status"] == 500
    assert problem_of(client.get("/api/unknown/"))["status"] == 404


# --- outside of views ---------------------------------------------------------------------------
def test_unknown_address_of_programs_is_a_problem(
    client: Client, subtests: pytest.Subtests
) -> None:
    for address in ["/api/", "/api/v1/unknown/", "/health/unknown", "/metrics"]:
        with subtests.test(address=address):
            problem = problem_of(client.get(address))

            assert problem["code"] == "not_found"
            assert "/api/docs/" in problem["detail"]


def test_unknown_page_is_a_problem_only_for_those_who_prefer_json(client: Client) -> None:
    assert problem_of(client.get("/nope/", headers={"accept": "application/json"}))["status"] == 404

    for accept in ("text/html,application/xhtml+xml,*/*;q=0.8", "*/*", ""):
        response = client.get("/nope/", headers={"accept": accept})
        assert response.status_code == 404
        assert response["Content-Type"].startswith("text/html")


def test_wrong_method_lists_the_right_ones_and_keeps_the_allow_header(
    client: Client, subtests: pytest.Subtests
) -> None:
    """Of a plain Django view, too."""
    for method in ["GET", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]:
        with subtests.test(method=method):
            posting_only = client.generic(method, "/api/posting/")
            problem = problem_of(posting_only)
            assert problem["code"] == "method_not_allowed"
            assert problem["detail"].endswith("is not known at this address; use POST.")
            assert posting_only["Allow"] == "POST"


def test_problem_can_be_read_as_it_comes(client: Client) -> None:
    """People see the body in a terminal; half a character must not break the answer."""
    response = raised(client, Invalid("Kein „größer“: 任务 \ud800"))

    assert "Kein „größer“: 任务 \\ud800" in response.content.decode()
    assert problem_of(response)["detail"] == "Kein „größer“: 任务 \ud800"


def raising_middleware(get_response: Any) -> Any:
    def answer(request: HttpRequest) -> HttpResponse:
        raise RAISED["now"]

    return answer


@pytest.mark.parametrize(
    ("error", "status"),
    [(OperationalError("gone"), 503), (PermissionDenied(), 403), (RuntimeError("inside"), 500)],
)
def test_failure_before_any_view_is_reported_in_the_same_way(
    settings: Any, error: Exception, status: int
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.raising_middleware"]

    problem = problem_of(raised(Client(), error, "/api/v1/raise/"))
    page = raised(Client(), error, "/page/")

    assert problem["status"] == page.status_code == status
    assert page["Content-Type"].startswith("text/html")


def test_form_over_the_limit_of_django_is_413(client: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100

    multipart = client.post("/api/posting/", {"a": "x" * 200})
    urlencoded = client.generic(
        "POST", "/api/posting/", "a=" + "x" * 200, content_type="application/x-www-form-urlencoded"
    )

    assert problem_of(multipart)["code"] == "too_large"
    assert problem_of(urlencoded)["code"] == "too_large"


# --- pages for people ----------------------------------------------------------------------------
def test_page_shows_people_what_happened_and_no_internals(
    client: Client, subtests: pytest.Subtests
) -> None:
    for error, status, text in [
        (NotFound("x"), 404, "Not found"),
        (Http404(), 404, "Not found"),
        (PermissionDenied(), 403, "Not allowed"),
        (SuspiciousOperation("inside"), 400, "This did not work"),
        (TooLarge("inside"), 413, "Too large"),
        (OperationalError("inside"), 503, "Not available for a moment"),
        (OperationalError("database or disk is full"), 507, "The disk is full"),
        (RuntimeError("inside"), 500, "Something went wrong"),
    ]:
        with subtests.test(error=error):
            response = raised(client, error, "/page/")
            page = response.content.decode()

            assert response.status_code == status
            assert response["Content-Type"].startswith("text/html")
            assert f"<h1>{text}</h1>" in page
            assert response["X-Request-Id"] in page
            assert "inside" not in page
            assert "<script" not in page and "style=" not in page
            assert ("Retry-After" in response) is (status == 503)


def test_form_without_its_token_is_asked_to_load_the_page_again() -> None:
    client = Client(enforce_csrf_checks=True)

    posted = problem_of(client.post("/api/posting/"))
    shown = client.post("/form/", headers={"accept": "text/html"})

    assert (posted["status"], posted["code"]) == (403, "forbidden")
    assert "token" in posted["detail"]
    assert shown.status_code == 403
    assert "<h1>This form is out of date</h1>" in shown.content.decode()
    assert "Nothing was saved." in shown.content.decode()


def test_page_touches_no_database(client: Client) -> None:
    """F6: it comes while the database is away; a query here would fail the test."""
    assert raised(client, OperationalError("gone"), "/page/").status_code == 503
