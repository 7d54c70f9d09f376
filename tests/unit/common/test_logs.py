"""Log lines: one JSON object each, with what the request or sweep is about."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from apps.common import logs
from apps.common.logs import JsonFormatter, bound


def line_of(message: str, *args: object, **extra: Any) -> str:
    record = logging.LogRecord("apps.x", logging.WARNING, "f.py", 1, message, args, None)
    record.__dict__.update(extra)
    return JsonFormatter().format(record)


def fields_of(message: str, *args: object, **extra: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line_of(message, *args, **extra))
    return fields


def test_line_tells_time_in_utc_level_logger_and_message() -> None:
    fields = fields_of("%d rows", 3, created=1_763_631_000.5)

    assert fields == {
        "time": "2025-11-20T09:30:00.500Z",
        "level": "WARNING",
        "logger": "apps.x",
        "message": "3 rows",
    }


def test_hostile_text_stays_on_one_plain_line() -> None:
    hostile = "a\r\n\x1b[2J\x9b31m\u202e\u2028巡\ud800\0"

    line = line_of("%s", hostile)

    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == hostile


def test_exception_is_told_with_its_traceback() -> None:
    try:
        raise ValueError("broken\nhalf")
    except ValueError:
        fields = fields_of("failed", exc_info=sys.exc_info())

    assert fields["exception"].startswith("Traceback")
    assert fields["exception"].endswith("ValueError: broken\nhalf")


def test_stack_is_told_when_asked_for() -> None:
    assert fields_of("here", stack_info="Stack (most recent call last):")["stack"].startswith(
        "Stack"
    )


def test_bound_fields_are_on_every_line_inside_and_gone_after() -> None:
    with bound(request_id="r1", sweep="expire"):
        with bound(sweep="inner", count=object):
            inner = fields_of("x")
        outer = fields_of("x")
        assert logs.request_id() == "r1"

    assert (inner["request_id"], inner["sweep"], inner["count"]) == ("r1", "inner", str(object))
    assert (outer["request_id"], outer["sweep"]) == ("r1", "expire")
    assert "sweep" not in fields_of("x")
    assert logs.request_id() == ""


def test_bound_fields_end_with_an_exception_too() -> None:
    try:
        with bound(sweep="expire"):
            raise ValueError
    except ValueError:
        pass

    assert "sweep" not in fields_of("x")


def test_bound_field_does_not_replace_the_message() -> None:
    with bound(message="forged", level="forged"):
        fields = fields_of("true")

    assert (fields["message"], fields["level"]) == ("true", "WARNING")


class Request:
    META = {logs.REQUEST_ID: "r2"}


def test_line_about_a_request_that_has_ended_carries_its_id() -> None:
    assert fields_of("Not Found: %s", "/x", request=Request())["request_id"] == "r2"
    assert "request_id" not in fields_of("from a socket", request=object())
