"""Middleware: counts, request ids, security headers, and errors outside of views."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from random import getrandbits
from typing import Any, TypeAlias

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone, translation
from django.utils.http import parse_header_parameters

from apps.common import logs
from apps.common.addresses import is_for_programs, is_in_english
from apps.common.api import http_metrics
from apps.common.api.problems import (
    REFUSED,
    by_status,
    error_response,
    from_exception,
    problem_response,
    wants_problem,
    wrong_method,
)
from apps.common.errors import Forbidden, NotFound
from apps.common.preferences import chosen_zone

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponseBase]

_UTF8 = re.compile(r';\s*charset\s*=\s*"?utf-?8"?\s*(?=;|$)', re.IGNORECASE)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# W3C Trace Context: version, trace, span, flags.
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "object-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    )
)
# The admin theme's Alpine builds functions from attributes.
_ADMIN_POLICY = _POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
_PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
_NOT_SECURE = (
    "Keys are taken over TLS only: ask https:// and change the key that you have sent. "
    "A proxy that ends TLS has to say so by X-Forwarded-Proto."
)
_COMPRESSED = {
    *("text/html", "text/plain", "application/json", "application/problem+json"),
    *("application/vnd.oai.openapi", "application/vnd.oai.openapi+json"),
}
# Proxies set aside little for the headers of an answer, nginx 4 KB by default. To them more is a
# failure of the server, which they then leave alone for some seconds: two long addresses would stop
# two servers.
_LONGEST_LOCATION = 2_200
# A shorter one fits into one packet anyway.
_WORTH_BYTES = 1_000
_NO_PAGE = "default-src 'none'; frame-ancestors 'none'"


class ReadableHeaders:
    """WSGI middleware: drops Content-Type and Accept headers that Django cannot read.

    Django raises while it builds the request, before any handler could answer. It also decodes the
    query string by the charset of the body, whatever codec that names; so UTF-8, the default, is
    left out, and a content type of another charset counts as none.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        # Only parameters can be malformed.
        if ";" in environ.get("CONTENT_TYPE", ""):
            content_type = _UTF8.sub("", environ["CONTENT_TYPE"])
            environ["CONTENT_TYPE"] = content_type if _is_readable(content_type) else ""
        if ";" in environ.get("HTTP_ACCEPT", ""):
            ranges = environ["HTTP_ACCEPT"].split(",")
            readable = ",".join(part for part in ranges if _is_readable(part))
            environ["HTTP_ACCEPT"] = readable or "*/*"
        return self.application(environ, start_response)


def _is_readable(header: str) -> bool:
    try:
        _, parameters = parse_header_parameters(header)
    except ValueError:
        return False
    return "charset" not in parameters


class CountingMiddleware:
    """Counts each answer for the metrics; the outermost, so that it sees those of all others."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = self.get_response(request)
        http_metrics.count(request, response.status_code, time.perf_counter() - began)
        return response


class RequestIdMiddleware:
    """Takes the caller's X-Request-Id (≤ 64 of A-Za-z0-9._-) or makes one; log lines carry it.

    So they do the trace of a `traceparent` header, when there is one.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else f"{getrandbits(64):016x}"
        request.META[logs.REQUEST_ID] = request_id
        fields = {"request_id": request_id}
        if trace := _TRACE_PARENT.fullmatch(request.META.get("HTTP_TRACEPARENT", "")[:200]):
            fields["trace_id"] = trace[1]
        with logs.bound(**fields):
            response = self.get_response(request)
        response.headers["X-Request-Id"] = request_id
        return response


class HeadersMiddleware:
    """Sets the security headers of pages and of answers to programs, and bounds what they repeat.

    A view may set a stricter policy itself.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = _with_short_location(request, self.get_response(request))
        path, headers = request.path_info, response.headers
        headers["X-Content-Type-Options"] = "nosniff"
        if is_in_english(path) or path.startswith("/admin/"):
            # What somebody has seen is not for the next one at the same screen.
            headers.setdefault("Cache-Control", "no-store")
        if is_for_programs(path):
            headers.setdefault("Content-Security-Policy", _NO_PAGE)
            if response.status_code == 204:
                headers.pop("Content-Length", None)
            elif isinstance(response, HttpResponse):
                # Without a length the connection could not be kept open.
                headers["Content-Length"] = str(len(response.content))
            return response
        policy = _ADMIN_POLICY if path.startswith("/admin/") else _POLICY
        headers.setdefault("Content-Security-Policy", policy)
        headers.setdefault("Permissions-Policy", _PERMISSIONS)
        return response


def _with_short_location(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    location = response.headers.get("Location", "")
    if len(location) <= _LONGEST_LOCATION:
        return response
    target, _, query = location.partition("?")
    # After a form, and to sign in, it only says where to go on; elsewhere it says what to show.
    is_for_comfort = request.method == "POST" or query.startswith(f"{REDIRECT_FIELD_NAME}=")
    if not is_for_comfort or len(target) > _LONGEST_LOCATION:
        return error_response(request, by_status(HTTPStatus.REQUEST_URI_TOO_LONG))
    response.headers["Location"] = target
    return response


class CompressionMiddleware(GZipMiddleware):
    """Compresses pages and JSON for callers that accept gzip; files are so already.

    The length of an answer could tell a secret in it to whoever has a browser ask again and again
    (BREACH). But sessions are SameSite, so other sites get answers without secrets; the token of a
    form is another one in each answer; and Django adds random bytes.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if isinstance(response, HttpResponse) and kind in _COMPRESSED:
            if len(response.content) >= _WORTH_BYTES:
                return super().process_response(request, response)
        return response


class LanguageMiddleware(LocaleMiddleware):
    """Pages use the language of their reader. Programs get English, whatever they accept: the
    messages of Django and DRF are part of the answers of the API."""

    def process_request(self, request: HttpRequest) -> None:
        if is_in_english(request.path_info):
            translation.activate("en")
        else:
            super().process_request(request)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if is_in_english(request.path_info):
            return response
        return super().process_response(request, response)


class ZoneMiddleware:
    """Pages of the admin show times in the zone of their reader; programs get UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        zone = chosen_zone(request) if request.path_info.startswith("/admin/") else None
        if zone is None:
            return self.get_response(request)
        # For this request only: the next one in this thread may be of somebody else.
        with timezone.override(zone):
            return self.get_response(request)


class ProblemMiddleware:
    """Answers failures outside of API views like those inside.

    Django passes most failures to the handlers of `problems`; these it does not.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if refusal := request.META.get(REFUSED):
            return error_response(request, refusal)
        path = request.path_info
        if path.startswith("/api/") and not path.endswith("/"):
            # A redirect would turn a POST into a GET and lose its body.
            return problem_response(
                request, NotFound(f"Paths under /api/ end with a slash; ask for {path[:200]}/")
            )
        if is_for_programs(path) and settings.SECURE_SSL_REDIRECT and not request.is_secure():
            # After a redirect nobody would notice that the key was sent in the clear.
            return problem_response(request, Forbidden(_NOT_SECURE))
        response = self.get_response(request)
        if response.status_code < 400 or not wants_problem(request):
            return response
        if "json" in response.headers.get("Content-Type", ""):
            return response
        # The rest is HTML made by Django, such as its debug pages.
        allowed = response.headers.get("Allow")
        # Some views send Allow with every answer.
        if allowed is None or response.status_code != 405:
            return problem_response(request, by_status(response.status_code))
        problem = problem_response(request, wrong_method(request, allowed))
        problem["Allow"] = allowed
        return problem

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """The answer to what a view outside the API raised; None leaves a bug to Django."""
        error = from_exception(exception)
        return error_response(request, error) if error else None
