"""What wraps the pages that people read, and not the calls of programs."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.locale import LocaleMiddleware


class _PagesOnly:
    """Put before a middleware that serves people: programs have no session, language or form."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith("/api/v1/"):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class PageSessionMiddleware(_PagesOnly, SessionMiddleware):
    """Sessions, for pages."""


class PageLocaleMiddleware(_PagesOnly, LocaleMiddleware):
    """The language that the reader chose, for pages."""


class PageAuthenticationMiddleware(_PagesOnly, AuthenticationMiddleware):
    """Who is signed in, for pages."""


class PageMessageMiddleware(_PagesOnly, MessageMiddleware):
    """What to tell at the next page."""
