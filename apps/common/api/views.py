"""The base of every API view: strict body, strict query, JSON only.

It leaves out what DRF does for several representations and versions, which would take as long as
handing out a task.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NoReturn

from django.http import HttpRequest, HttpResponse, QueryDict
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.common.api.serializers import StrictSerializer

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JsonAnswer(HttpResponse):
    """An answer in JSON, written at once, where DRF's `Response` waits for its renderer."""

    def __init__(
        self, data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        # Half of a pair, which SQL can have written, goes out as the escape that is stored.
        body = _encode(data).encode(errors="backslashreplace")
        super().__init__(body, content_type="application/json", status=status, headers=headers)


class NoContent(HttpResponse):
    """204: done, or there is nothing to return."""

    def __init__(self, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status=204, headers=headers)
        del self.headers["Content-Type"]


class JsonOnly(BaseContentNegotiation):
    """JSON whatever Accept asks for; the parser checks the content type."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


class JsonRequest(Request):
    """A request whose body always goes to the parser, and is never a form.

    DRF takes a missing Content-Length for an empty body, and an empty body for `{}`.
    """

    def _load_data_and_files(self) -> None:
        [parser] = self.parsers or ()
        stream: Any = self._request
        self._full_data: Any = parser.parse(stream, None, self.parser_context)


class NoParameters(StrictSerializer):
    """The query of a method that takes none."""


class ApiView(APIView):
    """One operation or a few on one address.

    `queries` and `bodies` declare by lower-case method what is taken, `answers` what is returned,
    as drf-spectacular writes responses; OpenAPI shows the same.
    `operations` are the names of methods in OpenAPI, where `ProblemSchema` makes no good one.
    `problems` are statuses that its problem answers have beside the usual ones.
    """

    queries: ClassVar[Mapping[str, type[StrictSerializer]]] = {}
    bodies: ClassVar[Mapping[str, type[StrictSerializer]]] = {}
    answers: ClassVar[Mapping[str, Any]] = {}
    operations: ClassVar[Mapping[str, str]] = {}
    body_limit: ClassVar[Literal["single", "batch"]] = "single"
    # Objects in a batch whose members count as its items.
    item_maps: ClassVar[Collection[str]] = ()
    problems: ClassVar[Sequence[int]] = ()

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    content_negotiation_class = JsonOnly
    format_kwarg = None

    request: Request
    query: dict[str, Any]

    @property
    def allowed_methods(self) -> list[str]:
        view: Any = type(self)
        return _methods_of(view)

    @property
    def default_response_headers(self) -> dict[str, str]:
        # DRF sends Allow with every answer; here only 405 has it.
        return {}

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        return JsonRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate first: only callers with a key learn what is wrong with a query."""
        self.perform_authentication(request)
        self.check_permissions(request)
        self.check_throttles(request)
        method = str(request.method)
        if method not in self.allowed_methods:
            self.headers["Allow"] = ", ".join(self.allowed_methods)
            self.http_method_not_allowed(request)
        taken = self.queries.get("get" if method == "HEAD" else method.lower())
        text = request.META.get("QUERY_STRING", "")
        if taken is None and not text:
            self.query = {}
        elif len(text) <= _SHORT and text.isascii():
            self.query = dict(_checked_query(taken or NoParameters, text))
        else:
            self.query = (taken or NoParameters).check_query(request.query_params)

    def perform_authentication(self, request: Request) -> None:
        # The same as `request.user`, with fewer calls.
        request._authenticate()  # type: ignore[attr-defined]

    def raise_uncaught_exception(self, exc: Exception) -> NoReturn:
        raise exc

    def read_body(self) -> dict[str, Any]:
        """The body as its serializer in `bodies` checks it; of a PATCH the given fields only.

        Raises a PlatformError naming everything that is wrong.
        """
        method = str(self.request.method).lower()
        return self.bodies[method].check(self.request.data, partial=method == "patch")


# Short queries repeat often, like `next=1`.
_SHORT = 16


@functools.lru_cache(maxsize=1000)
def _checked_query(serializer: type[StrictSerializer], text: str) -> dict[str, Any]:
    return serializer.check_query(QueryDict(text))


@functools.cache
def _methods_of(view: type[ApiView]) -> list[str]:
    # Django answers HEAD with GET, too.
    answered_by = {"head": "get"}
    names = view.http_method_names
    return [name.upper() for name in names if hasattr(view, answered_by.get(name, name))]
