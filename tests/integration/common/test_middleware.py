"""Request ids, the rules for browsers, and paths without their slash."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.test import Client, RequestFactory
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from apps.common import logs
from apps.common.api import problems
from apps.common.api.middleware import ReadableHeaders


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(logs.request_id())


@csrf_exempt
@require_safe
def read_only_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("x")


def long_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(
        "x" * int(request.GET["length"]),
        content_type=request.GET.get("type", "text/html"),
        headers={"ETag": '"one"'},
    )


def streamed_page(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(["x" * 2_000])


def empty_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204)


@csrf_exempt
def leading_page(request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(request.GET["to"])


@csrf_exempt
def reading_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{dict(request.GET)} {len(request.POST)}")


urlpatterns = [
    path("page/", page),
    path("admin/page/", page),
    path("api/page/", page),
    path("api/v1/page/", page),
    path("api/v1/nothing/", empty_page),
    path("read/", reading_page),
    path("lead/", leading_page),
    path("admin/long/", long_page),
    path("api/v1/long/", long_page),
    path("streamed/", streamed_page),
    re_path(r".*/?page/only-read/$", read_only_page),
    path("health/live", page),
]
handler400 = problems.handler400
handler403 = problems.handler403
handler404 = problems.handler404
handler500 = problems.handler500

pytestmark = pytest.mark.urls(__name__)


# --- request id --------------------------------------------------------------------------------
def test_sane_request_id_of_the_caller_is_kept(client: Client, subtests: pytest.Subtests) -> None:
    for given in ["a", "A1.b_c-D", "x" * 64]:
        with subtests.test(given=given):
            response = client.get("/page/", headers={"x-request-id": given})

            assert response["X-Request-Id"] == given
            assert response.content.decode() == given


# --- rules for browsers --------------------------------------------------------------------------
def directives(response: Any) -> dict[str, str]:
    parts = response["Content-Security-Policy"].split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in parts)}


def test_page_may_load_only_from_here_and_run_no_inline_script(client: Client) -> None:
    assert directives(client.get("/page/")) == {
        "default-src": "'self'",
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "object-src": "'none'",
        "frame-ancestors": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
    }


def test_eval_is_allowed_nowhere_but_in_admin(client: Client, subtests: pytest.Subtests) -> None:
    for address in ["/page/", "/api/page/", "/administrator/", "/nope/admin/"]:
        with subtests.test(address=address):
            assert directives(client.get("/admin/page/"))["script-src"] == "'self' 'unsafe-eval'"
            assert directives(client.get(address))["script-src"] == "'self'"


def test_every_answer_forbids_devices(client: Client) -> None:
    for address in ("/page/", "/api/page/", "/api/page", "/nope/"):
        assert "camera=()" in client.get(address)["Permissions-Policy"]


def test_every_answer_is_what_it_says_it_is(client: Client, subtests: pytest.Subtests) -> None:
    """A problem is that stands for a page of Django's own, too."""
    for address in ["/page/", "/admin/page/", "/api/page/", "/api/v1/page/"]:
        good = client.get(address)
        for accept in ["text/html", "application/json"]:
            with subtests.test(address=address, accept=accept):
                refused = client.delete(f"{address}only-read/", headers={"accept": accept})
                unknown = client.get(f"{address}nope/", headers={"accept": accept})
                for answer in (good, refused, unknown):
                    assert answer["X-Content-Type-Options"] == "nosniff"
                assert (refused.status_code, unknown.status_code) == (405, 404)


def test_answer_to_a_program_is_no_page(client: Client) -> None:
    answer = client.get("/api/v1/page/")

    assert directives(answer) == {"default-src": "'none'", "frame-ancestors": "'none'"}
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.django_db
def test_program_passes_by_the_sessions_and_messages_of_people(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for address in ("/page/", "/admin/page/", "/api/v1/page/", "/asyncflow/nothing/"):
        with subtests.test(address=address):
            request = admin_client.get(address).wsgi_request
            is_page = address.endswith("/page/") and "/api/" not in address
            found = [hasattr(request, name) for name in ("session", "user", "_messages")]
            assert found == [is_page] * 3


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_program_without_tls_is_refused_and_not_redirected(
    client: Client, settings: Any, method: str
) -> None:
    """It would lose its body, and nobody would notice that its key can be read."""
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

    bare = client.generic(method, "/api/v1/page/")
    behind = client.generic(method, "/api/v1/page/", headers={"X-Forwarded-Proto": "https"})

    assert (bare.status_code, bare.json()["code"]) == (403, "forbidden")
    assert "https://" in bare.json()["detail"]
    assert behind.status_code == 200
    assert client.get("/page/").status_code == 301


def test_answer_to_a_program_states_its_length(client: Client) -> None:
    """So that its connection can be kept; what has no body has no length."""
    page = client.get("/api/v1/page/")
    missing = client.get("/api/v1/nope/")

    assert page["Content-Length"] == str(len(page.content))
    assert missing["Content-Length"] == str(len(missing.content))
    assert "Content-Length" not in client.get("/api/v1/nothing/")


def test_address_to_go_to_fits_into_the_headers_that_proxies_take(client: Client) -> None:
    """4 KB with all others, else nginx leaves the web server alone for seconds, for everybody."""
    short, long = "/page/?a=" + "a" * 2_000, "/page/?a=" + "a" * 5_000
    for to, method, expected in (
        (short, "GET", (302, short)),
        # Without its query it would lead to something else.
        (long, "GET", (414, "")),
        (long, "POST", (302, "/page/")),
        ("/admin/login/?next=" + "a" * 5_000, "GET", (302, "/admin/login/")),
        ("/page/" + "a" * 5_000, "POST", (414, "")),
    ):
        answer = client.generic(method, f"/lead/?{urlencode({'to': to})}")
        assert (answer.status_code, answer.headers.get("Location", "")) == expected, to[:20]


def test_page_of_the_admin_is_not_stored(client: Client) -> None:
    for address in ("/admin/page/", "/admin/nope/", "/admin/page/only-read/"):
        assert client.get(address)["Cache-Control"] == "no-store", address
    assert "Cache-Control" not in client.get("/page/")


# --- failures that no view sees ------------------------------------------------------------------
def test_api_path_without_its_slash_is_not_redirected(
    client: Client, settings: Any, subtests: pytest.Subtests
) -> None:
    for method, debug in product(["GET", "POST", "PUT", "DELETE"], [False, True]):
        with subtests.test(method=method, debug=debug):
            settings.DEBUG = debug

            response = client.generic(method, "/api/page", b"{}", content_type="application/json")

            assert response.status_code == 404
            assert response.json()["code"] == "not_found"
            assert "ask for /api/page/" in response.json()["detail"]


def call(application: Any, **environ: Any) -> tuple[str, bytes]:
    """Status and body of a request that comes by WSGI, as from a server."""
    base = RequestFactory()._base_environ(REQUEST_METHOD="GET", PATH_INFO="/read/")
    statuses: list[str] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        statuses.append(status)

    given: dict[str, Any] = {**base, "wsgi.input": io.BytesIO(), **environ}
    answer: Iterable[bytes] = application(given, start_response)
    return statuses[0], b"".join(answer)


@pytest.fixture
def application() -> ReadableHeaders:
    """Django behind the guard, without the signals that close database connections."""
    handler = WSGIHandler()

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        response: Any = handler.get_response(WSGIRequest(environ))
        start_response(f"{response.status_code} {response.reason_phrase}", [])
        return [response.content]

    return ReadableHeaders(answer)


def test_header_that_django_cannot_read_counts_as_absent(
    application: ReadableHeaders, subtests: pytest.Subtests
) -> None:
    for header in [
        "application/json; x*=bogus''%41",
        "application/json; charset*=nonsense''utf-8",
        "a/b; x*" + "9" * 5000 + "=a",
    ]:
        for name, address in product(
            ["CONTENT_TYPE", "HTTP_ACCEPT"], ["/read/", "/nope/", "/api/page/"]
        ):
            with subtests.test(header=header, name=name, address=address):
                status, _ = call(application, PATH_INFO=address, **{name: header})
                plain, _ = call(application, PATH_INFO=address)
                assert status == plain


def test_query_is_read_as_utf8_whatever_charset_the_body_claims(
    application: ReadableHeaders, subtests: pytest.Subtests
) -> None:
    for charset in ["hex", "idna", "utf-16", "latin-1", "bogus", "\xe9"]:
        with subtests.test(charset=charset):
            content_type = f"application/x-www-form-urlencoded; charset={charset}"

            status, body = call(application, QUERY_STRING="a=%C3%A4", CONTENT_TYPE=content_type)

            assert (status, body.decode()) == ("200 OK", "{'a': ['ä']} 0")


def test_form_that_says_it_is_utf8_reaches_its_view(
    application: ReadableHeaders, subtests: pytest.Subtests
) -> None:
    """Also beside a query that is refused there."""
    refused = "&".join(f"a{n}=" for n in range(1100))
    queries = {"a=1": "200 OK", refused: "400 Bad Request"}
    for charset, query in product(["utf-8", "UTF8", '"utf-8"'], queries):
        with subtests.test(charset=charset, query=query):
            form = {
                "REQUEST_METHOD": "POST",
                "CONTENT_TYPE": f"application/x-www-form-urlencoded; charset={charset}; x=y",
                "CONTENT_LENGTH": "7",
                "wsgi.input": io.BytesIO(b"b=1&c=2"),
            }
            status, body = call(application, QUERY_STRING=query, **form)
            assert status == queries[query]
            assert (body == b"{'a': ['1']} 2") is (status == "200 OK")


@pytest.mark.parametrize("prefix", ["/admin/", "/api/v1/"])
def test_long_pages_and_json_are_compressed(client: Client, prefix: str) -> None:
    """With random bytes, so that the length tells little; the tag of the content stays one."""
    for kind in ("text/html; charset=utf-8", "application/json", "application/problem+json"):
        query = {"length": 20_000, "type": kind}
        answers = [
            client.get(f"{prefix}long/", query, headers={"Accept-Encoding": "gzip"})
            for _ in range(10)
        ]
        assert len({len(each.content) for each in answers}) > 1
        for each in answers:
            assert gzip.decompress(each.content) == b"x" * 20_000
            assert (each["Content-Encoding"], each["ETag"]) == ("gzip", 'W/"one"')
            assert each["Content-Length"] == str(len(each.content))
            assert "Accept-Encoding" in each["Vary"]


def test_what_gains_nothing_is_not_compressed(client: Client) -> None:
    accepts = {"Accept-Encoding": "gzip"}
    for query, headers in (
        ({"length": 999}, accepts),
        ({"length": 20_000, "type": "image/png"}, accepts),
        ({"length": 20_000}, {}),
        ({"length": 20_000}, {"Accept-Encoding": "br"}),
    ):
        answer = client.get("/admin/long/", query, headers=headers)
        assert "Content-Encoding" not in answer, query
        assert answer.content == b"x" * query["length"]
    # Files are streamed, which are compressed once, when they are collected.
    assert "Content-Encoding" not in client.get("/streamed/", headers=accepts)
