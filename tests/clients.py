"""The REST API as a program calls it, without a socket between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http.response import HttpResponseBase
from django.test import Client


class JsonClient:
    """Sends JSON with one API key; None sends no key.

    Answers are Django's: `.status_code`, `.json()`, `.headers`. An exception that no handler turns
    into an answer is raised, unless `shows_500` asks for what a caller would see.
    """

    def __init__(self, key: str | None, *, shows_500: bool = False) -> None:
        self._client = Client(raise_request_exception=not shows_500)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send `body` as JSON, or the bytes of `raw` as they are; neither sends no body."""
        if raw is None:
            raw = b"" if body is None else json.dumps(body, cls=DjangoJSONEncoder).encode()
        answer: HttpResponseBase = self._client.generic(
            method,
            path,
            raw,
            content_type,
            headers={**self._headers, **(headers or {})},
            query_params=dict(query or {}),
        )
        return answer

    def get(self, path: str, **query: Any) -> Any:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: object = None, **options: Any) -> Any:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: object = None, **options: Any) -> Any:
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: object = None, **options: Any) -> Any:
        return self.request("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> Any:
        return self.request("DELETE", path, **options)
