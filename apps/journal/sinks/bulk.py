"""An index of OpenSearch or Elasticsearch, or anything else that takes `POST /index/_bulk`.

The id of a document is that of the entry, so what is sent twice is there once.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import TIMEOUT_SECONDS, Line, Refused, Unavailable

# Statuses about the lines; all others are about the sink, or about how it is called.
_OF_THE_LINES = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}
# Of what is no answer to a _bulk call: numbers without end and nesting without end, too.
_NO_ANSWER = (
    *(ValueError, TypeError, KeyError, AttributeError, StopIteration),
    *(OverflowError, RecursionError),
)
_LATER = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_OK = range(200, 300)
_MAX_SHOWN = 300
# Far more than is said of a batch; a stream without end would fill the memory of the sweeps.
_MAX_ANSWER = 2**24


class BulkSink:
    """One connection that is kept open."""

    def __init__(self, address: SinkAddress) -> None:
        parts = address.parts
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self._connection = kinds[parts.scheme](
            str(parts.hostname), parts.port, timeout=TIMEOUT_SECONDS
        )
        self._path = f"{parts.path.rstrip('/')}/_bulk"
        self._headers = {"Content-Type": "application/x-ndjson"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"

    def deliver(self, lines: Sequence[Line]) -> None:
        body = "".join(f'{{"index":{{"_id":"{line.id}"}}}}\n{line.text}\n' for line in lines)
        status, answer = self._post(body.encode("ascii"))
        if status in _OF_THE_LINES:
            raise Refused(f"HTTP {status}: {_shown(answer)}")
        if status not in _OK:
            raise Unavailable(f"HTTP {status}: {_shown(answer)}")
        self._check_items(lines, answer)

    def close(self) -> None:
        self._connection.close()

    def _post(self, body: bytes) -> tuple[int, bytes]:
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            answer = response.read(_MAX_ANSWER)
            if not response.isclosed():
                # What is left would be taken for the next answer.
                self._connection.close()
            return response.status, answer
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unavailable(str(error) or type(error).__name__) from error

    def _check_items(self, lines: Sequence[Line], answer: bytes) -> None:
        """Refused with the lines that will never be taken; Unavailable while some may be."""
        try:
            said = json.loads(answer)
            items = [next(iter(item.values())) for item in said["items"]] if said["errors"] else []
            found = [(int(item["status"]), item) for item in items]
        except _NO_ANSWER as error:
            raise Unavailable(f"The answer is none of a _bulk call: {_shown(answer)}") from error
        if found and len(found) != len(lines):
            raise Unavailable(f"{len(found)} results for {len(lines)} lines")
        for status, item in found:
            if status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise Unavailable(f"HTTP {status} for some lines: {_error_of(item)}")
        errors = {
            line.id: _error_of(item)
            for line, (status, item) in zip(lines, found, strict=False)
            if status not in _OK
        }
        if errors:
            raise Refused(f"{len(errors)} of {len(lines)} lines", errors)


def _error_of(item: dict[str, Any]) -> str:
    error = item.get("error")
    return json.dumps(error)[:_MAX_SHOWN] if error else f"HTTP {item['status']}"


def _shown(answer: bytes) -> str:
    return answer[:_MAX_SHOWN].decode(errors="replace")
