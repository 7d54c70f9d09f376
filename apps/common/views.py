"""The base of every API view: strict body, strict query, JSON and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from django.http import HttpRequest
from django.utils import translation
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.common.serializers import StrictSerializer


class JsonOnly(BaseContentNegotiation):
    """There is one representation, so Accept is not asked; the parser judges the content type."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


class JsonRequest(Request):
    """A request whose body always reaches the parser.

    DRF takes a missing Content-Length for an empty body, and an empty body for `{}`.
    """

    def _load_stream(self) -> None:
        self._stream: Any = self._request


class NoParameters(StrictSerializer):
    """The query of a method that takes none."""


class ApiView(APIView):
    """One operation or a few on one address.

    `queries` and `bodies` tell by lower-case method what is taken; OpenAPI shows the same.
    `problems` are statuses that its problem answers have beside the usual ones.
    """

    queries: ClassVar[Mapping[str, type[StrictSerializer]]] = {}
    bodies: ClassVar[Mapping[str, type[StrictSerializer]]] = {}
    body_limit: ClassVar[Literal["single", "batch"]] = "single"
    problems: ClassVar[Sequence[int]] = ()

    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    content_negotiation_class = JsonOnly

    request: Request
    query: dict[str, Any]

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        # Sentences of Django and DRF find their way into answers, and programs read English.
        translation.activate("en")
        return JsonRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Who asks comes first: nobody else learns what is wrong with a query."""
        super().initial(request, *args, **kwargs)
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)
        method = "get" if request.method == "HEAD" else str(request.method).lower()
        self.query = self.queries.get(method, NoParameters).check_query(request.query_params)

    def read_body(self) -> dict[str, Any]:
        """The body as its serializer in `bodies` checks it; of a PATCH the given fields only.

        Raises a PlatformError naming everything that is wrong.
        """
        method = str(self.request.method).lower()
        return self.bodies[method].check(self.request.data, partial=method == "patch")
