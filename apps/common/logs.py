"""Log lines: one JSON object each, carrying what the current request or sweep is about."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

# Where the middleware leaves the id in `request.META`.
REQUEST_ID = "taskplatform.request_id"

_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound_log_fields", default=MappingProxyType({}))


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Add the fields to every line logged inside, also by libraries.

    The fields belong to this thread (or asyncio task); inner fields win over outer ones.
    """
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def request_id() -> str:
    """The id of the request being answered, "" outside of one."""
    return str(_bound.get().get("request_id", ""))


class JsonFormatter(logging.Formatter):
    """`{"time": …Z, "level", "logger", "message", bound fields…, "exception"?}` on one line.

    JSON in pure ASCII: neither a line break nor a terminal escape of a logged text survives.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            **_of_finished_request(record),
            **_bound.get(),
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str)


def _of_finished_request(record: logging.LogRecord) -> dict[str, Any]:
    # Django tells of a 4xx after the middleware has ended, and hands the request over instead.
    meta = getattr(getattr(record, "request", None), "META", {})
    return {"request_id": meta[REQUEST_ID]} if REQUEST_ID in meta else {}
