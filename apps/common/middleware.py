"""What wraps every request: its id, the browser's rules, and failures outside of views."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from django.http import HttpRequest, HttpResponseBase
from django.utils.http import parse_header_parameters

from apps.common import logs
from apps.common.errors import NotFound, UnsupportedMediaType
from apps.common.problems import (
    by_status,
    error_response,
    from_exception,
    problem_response,
    wants_problem,
)

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponseBase]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

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


class ReadableHeaders:
    """WSGI middleware: a Content-Type or Accept that Django cannot read counts as absent.

    Django raises while it builds the request, before any handler could answer.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        for name in ("CONTENT_TYPE", "HTTP_ACCEPT"):
            header = environ.get(name, "")
            # Only parameters can be wrong.
            if ";" in header and not _is_readable(header):
                del environ[name]
        return self.application(environ, start_response)


def _is_readable(header: str) -> bool:
    try:
        for part in header.split(","):
            parse_header_parameters(part)
    except ValueError:
        return False
    return True


class RequestIdMiddleware:
    """Takes the caller's X-Request-Id (≤ 64 of A-Za-z0-9._-) or makes one; log lines carry it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        request.META[logs.REQUEST_ID] = request_id
        with logs.bound(request_id=request_id):
            response = self.get_response(request)
        response.headers["X-Request-Id"] = request_id
        return response


class ContentSecurityPolicyMiddleware:
    """Says what a page of ours may load and do; a view may set a stricter policy itself."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        path = request.path_info
        policy = _ADMIN_POLICY if path.startswith("/admin/") else _POLICY
        response.setdefault("Content-Security-Policy", policy)
        response.setdefault("Permissions-Policy", _PERMISSIONS)
        if path.startswith("/api/"):
            response.setdefault("Cache-Control", "no-store")
        return response


class ProblemMiddleware:
    """Turns what fails outside of API views into the same answers.

    Django itself asks the handlers of `problems` for most failures; here is what they never see.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        charset = (request.content_params or {}).get("charset", "utf-8")
        # Django would decode even the query string with any codec named here.
        if charset.lower() not in ("utf-8", "utf8"):
            return error_response(
                request,
                UnsupportedMediaType(f"The charset {charset[:40]!r} is not read; send UTF-8."),
            )
        path = request.path_info
        if path.startswith("/api/") and not path.endswith("/"):
            # A redirect would turn a POST into a GET and lose its body.
            return problem_response(
                request, NotFound(f"Paths under /api/ end with a slash; ask for {path[:200]}/")
            )
        response = self.get_response(request)
        if response.status_code < 400 or not wants_problem(request):
            return response
        if "json" in response.headers.get("Content-Type", ""):
            return response
        # What is left is HTML of Django's own making, such as its debug pages.
        problem = problem_response(request, by_status(response.status_code))
        if "Allow" in response.headers:
            problem["Allow"] = response.headers["Allow"]
        return problem

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        """The answer to what a view outside the API raised; None leaves a bug to Django."""
        error = from_exception(exception)
        return error_response(request, error) if error else None
