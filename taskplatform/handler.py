"""How a request finds its view."""

from __future__ import annotations

from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest
from django.urls import ResolverMatch


class Handler(WSGIHandler):
    """Django's, which looks up the view of an address without parameters once per process."""

    def __init__(self) -> None:
        self._found: dict[str, ResolverMatch] = {}
        super().__init__()

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        found = self._found.get(request.path_info)
        if found is None:
            found = super().resolve_request(request)
            # As many as there are such addresses, whatever is asked for.
            if f"/{found.route}" == request.path_info:
                self._found[request.path_info] = found
        request.resolver_match = found
        return found
