"""The OpenAPI document as it is served: made once per process, because making it takes a second of
CPU and anybody may ask for it."""

from __future__ import annotations

import hashlib
import threading

from django.http import HttpResponse
from django.utils import translation
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.encoding import force_bytes
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

# schema: importing it is registering how callers say who they are.
from apps.access import schema  # noqa: F401
from apps.access.throttles import AddressThrottle

_rendering = threading.Lock()
# The ETag and the text of the document, by the format: yaml or json.
_rendered: dict[str, tuple[str, bytes]] = {}


class DocumentView(SpectacularAPIView):
    """The document, in English, as YAML or JSON; 304 to who has it already."""

    throttle_classes = [AddressThrottle]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponse:
        renderer = request.accepted_renderer
        etag, text = document(renderer)
        answer = HttpResponse(text, content_type=renderer.media_type)
        answer["Content-Disposition"] = f'inline; filename="task-platform.{renderer.format}"'
        answer["ETag"] = etag
        answer["Cache-Control"] = "public, max-age=60"
        # Also with 304, which caches take the headers of.
        patch_vary_headers(answer, ["Accept-Encoding"])
        conditional = get_conditional_response(request._request, etag=etag, response=answer)
        return conditional or answer


def document(renderer: BaseRenderer) -> tuple[str, bytes]:
    """The ETag and the text of the document in the format of the renderer."""
    form = str(renderer.format)
    # One thread makes it, and the others of a fresh process wait for that one.
    with _rendering:
        if form not in _rendered:
            with translation.override("en"):
                made = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
                text = force_bytes(renderer.render(made, renderer_context={}))
            _rendered[form] = f'"{hashlib.sha256(text).hexdigest()[:32]}"', text
        return _rendered[form]
