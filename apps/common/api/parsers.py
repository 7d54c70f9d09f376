"""Reading a request body: one JSON object in UTF-8, of bounded size, depth and number of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from apps.common.errors import Malformed, TooLarge, UnsupportedMediaType
from apps.common.json.text import parse_json
from apps.common.json_rules import MAX_BYTES

BATCH_BYTES = 8 * 1024 * 1024
_CHARSETS = {"utf-8", "utf8"}


class StrictJSONParser(BaseParser):
    """Parses the bodies of all API views; raises the errors of `apps.common.errors`.

    The view's attribute `body_limit` sets the limit: "single" (256 KB) or "batch" (8 MB and
    200,000 items and keys in all, with top-level lists of at most 1,000 items, each within the
    limits of a single body; the objects that the view names in `item_maps` are such lists, too).
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The object in the body. DRF's stream is not used: it knows no limit."""
        context = parser_context or {}
        batch = getattr(context["view"], "body_limit", "single") == "batch"
        request: HttpRequest = context["request"]._request
        body = read_body(request, BATCH_BYTES if batch else MAX_BYTES)
        check_content_headers(request)
        return parse_json(body, batch=batch, maps=getattr(context["view"], "item_maps", ()))


def read_body(request: HttpRequest, limit: int) -> bytes:
    """The body, of at most `limit` bytes; TooLarge or Malformed (cut off, empty) otherwise.

    With a declared length above the limit nothing is read.
    """
    meta = request.META
    declared = meta.get("CONTENT_LENGTH") or ""
    if declared and not (declared.isascii() and declared.isdigit()):
        raise Malformed("Content-Length is not a number; send the length of the body in bytes.")
    if declares_more(meta, limit):
        raise _too_large(limit)
    body = b""
    try:
        while part := request.read(limit + 1 - len(body)):
            body += part
            if len(body) > limit:
                raise _too_large(limit)
    except OSError as error:
        raise Malformed("The connection broke before the body was complete.") from error
    if declared and len(body) != int(declared):
        raise Malformed(f"The body ended after {len(body)} of {declared} bytes; send it again.")
    if not body:
        raise Malformed("The body is empty; send a JSON object, at least {}.")
    return body


def declares_more(meta: Mapping[str, Any], limit: int) -> bool:
    """Whether a body is announced that has more bytes than the limit."""
    declared = meta.get("CONTENT_LENGTH") or ""
    if not (declared.isascii() and declared.isdigit()):
        return False
    # A number of more than 20 digits exceeds every limit; int() of a long one would be slow.
    return len(declared) > 20 or int(declared) > limit


def check_content_headers(request: HttpRequest) -> None:
    """Raise UnsupportedMediaType unless the headers announce plain JSON in UTF-8."""
    if request.content_type != "application/json":
        given = f"{request.content_type[:80]!r} is no" if request.content_type else "No readable"
        raise UnsupportedMediaType(f"{given} content type here; send application/json in UTF-8.")
    charset = (request.content_params or {}).get("charset", "utf-8")
    if charset.lower() not in _CHARSETS:
        raise UnsupportedMediaType(f"The charset {charset[:40]!r} is not read; send UTF-8.")
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip()
    if encoding.lower() not in {"", "identity"}:
        raise UnsupportedMediaType(
            f"Content-Encoding {encoding[:40]!r} is not read; send it plain."
        )


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes; send less at a time.")
