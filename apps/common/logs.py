"""Log lines, JSON or text, with context: request, dispatch, job, trace; secrets are masked.

with bound(job=held.id, attempt=2): …   # every line inside, by whichever library, carries them
note(dispatch=number)                   # from here to the end of the enclosing `bound`
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from apps.common.error_lines import line_of_text
from apps.common.masking import redact_line
from apps.common.masking.key_lines import KeyLines

# Where the middleware leaves the id in `request.META`.
REQUEST_ID = "taskplatform.request_id"

_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound_log_fields", default=MappingProxyType({}))


class _Said(threading.local):
    """What each thread has logged."""

    def __init__(self) -> None:
        self.keys = KeyLines()


_said = _Said()


def bound(**fields: Any) -> AbstractContextManager[None]:
    """Add the fields to every line logged inside, also by libraries.

    The fields belong to this thread (or asyncio task); inner fields win over outer ones.
    """
    return _Bound(fields)


class _Bound(AbstractContextManager[None]):
    # Around every request; a generator would take three times as long.
    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _bound.set({**_bound.get(), **self._fields})

    def __exit__(self, *_error: object) -> None:
        _bound.reset(self._token)


def note(**fields: Any) -> None:
    """Add fields to every further line of the enclosing `bound`; outside of one do nothing."""
    if _bound.get():
        _bound.set({**_bound.get(), **fields})


def request_id() -> str:
    """The id of the request being answered, "" outside of one."""
    return str(_bound.get().get("request_id", ""))


class JsonFormatter(logging.Formatter):
    """`{"time": …Z, "level", "logger", "message", bound fields…, "exception"?}` on one line.

    Pure ASCII, so a logged text contains neither line breaks nor terminal escapes.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            **_of_finished_request(record),
            **_bound.get(),
            "time": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(redact_line(line), default=str)


class TextFormatter(logging.Formatter):
    """`TIME LEVEL LOGGER: MESSAGE: ERROR [field=value …]`, then the traceback, indented.

    Unprintable characters are escaped, so that a logged text can neither start a line nor control a
    terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = {**_of_finished_request(record), **_bound.get()}
        said = redact_line(_message_of(record))
        text = f"{_time_of(record)} {record.levelname} {record.name}: {said}"
        below: list[str] = []
        if record.exc_info:
            formatted = redact_line(self.formatException(record.exc_info))
            below = formatted.splitlines()
            text += f": {line_of_text(formatted)}"
        if record.stack_info:
            below += redact_line(self.formatStack(record.stack_info)).splitlines()
        if fields:
            shown = redact_line(fields)
            text += f" [{' '.join(f'{name}={value}' for name, value in shown.items())}]"
        return "\n    ".join(map(_printable, [text, *below]))


class DatabaseAway(logging.Filter):
    """Leaves out the traceback of what a database that is away or busy refused: it says nothing,
    and meanwhile there is one for each sweep of each second."""

    def filter(self, record: logging.LogRecord) -> bool:
        from django.db import InterfaceError, OperationalError

        if record.exc_info and isinstance(record.exc_info[1], OperationalError | InterfaceError):
            record.exc_info = record.exc_text = None
        return True


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def _message_of(record: logging.LogRecord) -> str:
    """What was said, but the lines of a private key that this thread logs one by one."""
    return _said.keys.hide(record.getMessage())


def _time_of(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _of_finished_request(record: logging.LogRecord) -> dict[str, Any]:
    # Django logs a 4xx after the middleware has ended, with the request as an attribute.
    meta = getattr(getattr(record, "request", None), "META", {})
    return {"request_id": meta[REQUEST_ID]} if REQUEST_ID in meta else {}
