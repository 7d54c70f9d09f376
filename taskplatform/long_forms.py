"""Bounds of the forms that browsers send without a file."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase

from apps.common.addresses import pages_only
from apps.common.api.parsers import declares_more
from apps.common.api.problems import by_status, error_response
from taskplatform import sign_ins

# The JSON of the largest form, each of its letters written as %XX; files come in another way.
MAX_BYTES = 3 * 1024 * 1024
_FORM = "application/x-www-form-urlencoded"


@pages_only
class LongFormMiddleware:
    """Sends those who have not signed in to do so, before a long form of theirs is read.

    Django reads each form for its token before it asks whose it is, and decoding a long one takes
    seconds. Nobody may send one that takes longer than half of one. Programs show their keys first.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if not declares_more(request.META, sign_ins.MAX_BYTES):
            return self.get_response(request)
        if path == str(settings.LOGIN_URL):
            return error_response(request, sign_ins.too_large())
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if request.content_type == _FORM and declares_more(request.META, MAX_BYTES):
            return error_response(request, by_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
        return self.get_response(request)
