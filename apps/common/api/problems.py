"""Every failure in one shape: application/problem+json for programs, a small page for people."""

from __future__ import annotations

import json
import logging
import math
import random
import sys
from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
    TooManyFilesSent,
    ValidationError,
)
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from rest_framework import exceptions as drf

from apps.common.addresses import is_in_english
from apps.common.db import is_retryable, refers_to_nothing
from apps.common.errors import (
    Conflict,
    Forbidden,
    Invalid,
    Malformed,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    PlatformError,
    StorageFull,
    Throttled,
    TooLarge,
    Unavailable,
    UnsupportedMediaType,
    field_errors,
    refusal,
)
from apps.common.logs import request_id

logger = logging.getLogger(__name__)

# Where the server puts the PlatformError of a request whose body it does not read.
REFUSED = "taskplatform.refused"
# Also without a page for people.
_PLAIN_PATHS = ("/health/", "/metrics")
_FULL_DISK = ("is full", "No space left")


class ServerError(PlatformError):
    """A bug. The answer has no details; the log has them under the same request id."""

    code = "internal"
    status = 500
    title = "The server failed"


class StaleForm(Forbidden):
    """A form without its CSRF token, or with an expired one."""

    title = "The form is out of date"


_UNREADABLE = "The request cannot be read; compare it with /api/docs/."
_FAILED = "The request was not carried out; give the operator the request_id."
_BY_STATUS: dict[int, PlatformError] = {
    400: Invalid(_UNREADABLE),
    403: Forbidden("This caller may not do that; ask an operator for the permission."),
    404: NotFound("Nothing is known at this address or under this id; compare it with /api/docs/."),
    405: MethodNotAllowed("This address does not know that method."),
    413: TooLarge("The body is too large; send less at a time."),
    500: ServerError(_FAILED),
}


def by_status(status: int) -> PlatformError:
    """The error for a status, with a general message where the status is rare."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    error = ServerError(_FAILED) if status >= 500 else Invalid(_UNREADABLE)
    error.status, error.title = status, HTTPStatus(status).phrase
    return error


def from_exception(error: BaseException | None) -> PlatformError | None:
    """The exception as an error that the caller may read; None for a bug."""
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, drf.APIException):
        return _from_drf(error)
    if isinstance(error, Http404):
        return by_status(404)
    if isinstance(error, PermissionDenied):
        return by_status(403)
    if isinstance(error, ValidationError):
        detail = error.message_dict if hasattr(error, "error_dict") else error.messages
        return refusal(field_errors(detail))
    if isinstance(error, RequestDataTooBig):
        return by_status(413)
    if isinstance(error, TooManyFieldsSent | TooManyFilesSent):
        return Invalid("The request has too many fields or files; send fewer at a time.")
    if isinstance(error, DisallowedHost):
        return Invalid("This host name is not served here; an operator lists it in ALLOWED_HOSTS.")
    if isinstance(error, MultiPartParserError | UnreadablePostError):
        return Malformed("The body broke off or is not what its headers say; send it again.")
    if isinstance(error, SuspiciousOperation | BadRequest):
        return by_status(400)
    return _from_database(error)


def _from_drf(error: drf.APIException) -> PlatformError | None:
    if isinstance(error, drf.ValidationError):
        return refusal(field_errors(error.detail))
    # The message of a view or permission is more specific than the one for the status.
    detail = "" if error.detail == error.default_detail else str(error.detail)
    if isinstance(error, drf.NotAuthenticated | drf.AuthenticationFailed):
        return NotAuthenticated(detail or "Send Authorization: Bearer <client-id>.<secret>.")
    if isinstance(error, drf.Throttled):
        return Throttled(_throttled(error.wait), retry_after=error.wait)  # type: ignore[attr-defined]
    if isinstance(error, drf.ParseError):
        return Malformed(detail)
    if isinstance(error, drf.UnsupportedMediaType):
        return UnsupportedMediaType("Send the body with Content-Type: application/json.")
    if isinstance(error, drf.PermissionDenied) and detail:
        return Forbidden(detail)
    return by_status(error.status_code) if error.status_code < 500 else None


def _throttled(wait: float | None) -> str:
    when = "later" if wait is None else f"in {math.ceil(wait)} s"
    return f"The rate of this key or address is used up; repeat the same request {when}."


def _from_database(error: BaseException | None) -> PlatformError | None:
    if isinstance(error, IntegrityError) and refers_to_nothing(error):
        return Conflict("Something that this refers to was deleted just now; read it and repeat.")
    away = isinstance(error, OperationalError | InterfaceError)
    if not away and not (isinstance(error, DatabaseError) and is_retryable(error)):
        return None
    # One line without a traceback: while the database is away every request comes here.
    logger.warning("The database did not carry out a request: %s", error)
    if any(sign in str(error) for sign in _FULL_DISK):
        return StorageFull("The disk is full and nothing was stored; try again later.")
    return Unavailable("The database is away or busy; repeat the same request later.")


def wrong_method(request: HttpRequest, allowed: str) -> MethodNotAllowed:
    """The error of a method that is not among `allowed`, the text of the Allow header."""
    return MethodNotAllowed(f"{request.method} is not known at this address; use {allowed}.")


def exception_handler(exc: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """DRF's hook. None leaves a bug to Django, which logs it and calls `handler500`."""
    request = context["request"]
    error = from_exception(exc)
    if isinstance(exc, drf.MethodNotAllowed):
        error = wrong_method(request, ", ".join(context["view"].allowed_methods))
    return problem_response(request, error) if error else None


def problem_response(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """The error as application/problem+json, with the headers that belong to its status."""
    problem = {
        "type": f"urn:taskplatform:problem:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": request.path,
        "code": error.code,
        "errors": [{"field": e.field, "code": e.code, "message": e.message} for e in error.errors],
        "request_id": request_id(),
    }
    # Readable for people: text unescaped, except lone surrogates.
    text = json.dumps(problem, ensure_ascii=False).encode(errors="backslashreplace")
    response = HttpResponse(text, status=error.status, content_type="application/problem+json")
    _add_headers(response, error)
    return response


def error_response(request: HttpRequest, error: PlatformError) -> HttpResponse:
    """The error as the caller needs it: a problem for programs, a page for browsers."""
    if wants_problem(request):
        return problem_response(request, error)
    headline, advice = _page_texts(error)
    texts = {
        "status": error.status,
        "headline": headline,
        "advice": advice,
        "request_id": request_id(),
    }
    if _is_framed(request, error):
        frame = {**admin.site.each_context(request), "title": headline, "subtitle": None}
        page = render_to_string("admin/error.html", frame | texts, request)
    else:
        # No context processors: they read session and database, which may be the cause.
        page = render_to_string("errors.html", texts)
    response = HttpResponse(page, status=error.status)
    _add_headers(response, error)
    return response


def _is_framed(request: HttpRequest, error: PlatformError) -> bool:
    """Whether the page has the menu of the admin: for staff whose request met nothing broken."""
    if error.status not in (403, 404) or not request.path_info.startswith("/admin/"):
        return False
    # Middleware that refuses a request may do so before it is known whose it is.
    user = getattr(request, "user", None)
    return user is not None and admin.site.has_permission(request)


def wants_problem(request: HttpRequest) -> bool:
    """True for the paths of programs and for callers that prefer JSON to HTML."""
    path = request.path_info
    if is_in_english(path) or path.startswith(_PLAIN_PATHS):
        return True
    return request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def _add_headers(response: HttpResponse, error: PlatformError) -> None:
    if error.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if error.status in (429, 503):
        # Random, so that callers refused together do not return together.
        wait = error.retry_after or random.uniform(1, 5)  # noqa: S311
        response["Retry-After"] = str(math.ceil(wait))


def _page_texts(error: PlatformError) -> tuple[str | Promise, str | Promise]:
    status = error.status
    if isinstance(error, StaleForm):
        return (
            _("This form is out of date"),
            _(
                "Nothing was saved. Go back, reload the page and send it again; "
                "cookies must be allowed."
            ),
        )
    if status == 403:
        return _("Not allowed"), _("Your account may not do this. Ask an administrator.")
    if status == 404:
        return _("Not found"), _("There is nothing at this address. It may have been removed.")
    if status == 413:
        return _("Too large"), _("Nothing was saved. Go back and send less at a time.")
    if status == 507:
        return _("The disk is full"), _("Nothing was saved. An administrator has to make room.")
    if status == 429:
        return _("Too many attempts"), _("Nothing was changed. Wait a minute and try again.")
    if status == 503:
        return _("Not available for a moment"), _("Nothing is lost. Try again in some seconds.")
    if status >= 500:
        return _("Something went wrong"), _("It was logged. Give the number below when you ask.")
    return _("This did not work"), _("The request cannot be carried out as it was sent.")


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, from_exception(exception) or by_status(400))


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, from_exception(exception) or by_status(403))


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, from_exception(exception) or by_status(404))


def handler500(request: HttpRequest) -> HttpResponse:
    # Django calls it while it handles the exception, and passes nothing on.
    return error_response(request, from_exception(sys.exc_info()[1]) or by_status(500))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's `CSRF_FAILURE_VIEW`; the reason is for the log, where Django writes it."""
    return error_response(
        request,
        StaleForm("The form's token is missing or over; reload its page and send it again."),
    )
