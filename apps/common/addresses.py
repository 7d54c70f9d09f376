"""The addresses for programs: their answers are in English and JSON, never pages."""

from __future__ import annotations

from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponseBase

MiddlewareT = TypeVar("MiddlewareT", bound=type[Any])
_PROGRAMS = ["/api/v1/"]


def register_programs(prefix: str) -> None:
    """Addresses with this prefix are for programs, too."""
    if prefix not in _PROGRAMS:
        _PROGRAMS.append(prefix)


def is_for_programs(path: str) -> bool:
    """Whether the address is for programs alone."""
    return path.startswith(tuple(_PROGRAMS))


def is_in_english(path: str) -> bool:
    """Whether the address answers in English for everybody: the documents of the API, too."""
    return path.startswith("/api/") or is_for_programs(path)


def pages_only(middleware: MiddlewareT) -> MiddlewareT:
    """Decorator of the class of a middleware: requests of programs pass it by. Sessions, messages
    and what else serves people would take a sixth of the time of a short answer."""
    answer_page = middleware.__call__

    def answer(self: Any, request: HttpRequest) -> HttpResponseBase:
        if is_for_programs(request.path_info):
            return self.get_response(request)  # type: ignore[no-any-return]
        return answer_page(self, request)  # type: ignore[no-any-return]

    middleware.__call__ = answer
    return middleware
