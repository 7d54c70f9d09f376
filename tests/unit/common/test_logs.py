"""Log lines, as JSON and as text, with what the request or job is about."""

from __future__ import annotations

import json
import logging
import sys
import threading
from typing import Any

import pytest
from celery import Celery
from django.db import OperationalError

from apps.common import logs
from apps.common.logs import JsonFormatter, TextFormatter, bound, note
from tests.masks import CODE, PRIVATE_KEY


def line_of(message: str, *args: object, **extra: Any) -> str:
    record = logging.LogRecord("apps.x", logging.WARNING, "f.py", 1, message, args, None)
    record.__dict__.update(extra)
    return JsonFormatter().format(record)


def fields_of(message: str, *args: object, **extra: Any) -> dict[str, Any]:
    return json.loads(line_of(message, *args, **extra))


def test_line_shows_time_in_utc_level_logger_and_message() -> None:
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


def test_exception_is_logged_with_its_traceback() -> None:
    try:
        raise ValueError("broken\nhalf")
    except ValueError:
        fields = fields_of("failed", exc_info=sys.exc_info())

    assert fields["exception"].startswith("Traceback")
    assert fields["exception"].endswith("ValueError: broken\nhalf")


def test_sweep_that_the_database_refuses_is_one_line(
    caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """Others keep their traceback: they are bugs."""
    for error, is_shown in (
        (OperationalError(2002, "Can't connect"), False),
        (KeyError("x"), True),
    ):
        with subtests.test(error=error):
            caplog.clear()
            app = Celery("test", set_as_current=False)

            @app.task(name="sweep", shared=False)
            def sweep(error: Exception = error) -> None:
                raise error

            sweep.apply()

            [line] = [each for each in caplog.records if each.name == "celery.app.trace"]
            assert repr(error) in line.getMessage()
            assert bool(line.exc_info) is is_shown


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


def test_bound_field_does_not_replace_the_message() -> None:
    with bound(message="forged", level="forged"):
        fields = fields_of("true")

    assert (fields["message"], fields["level"]) == ("true", "WARNING")


class Request:
    META = {logs.REQUEST_ID: "r2"}


def test_line_about_a_request_that_has_ended_carries_its_id() -> None:
    assert fields_of("Not Found: %s", "/x", request=Request())["request_id"] == "r2"
    assert "request_id" not in fields_of("from a socket", request=object())


def test_what_becomes_known_is_on_the_further_lines_of_its_request_only() -> None:
    note(dispatch="1")
    assert "dispatch" not in fields_of("x"), "a thread goes on to other work"
    with bound(request_id="r1"):
        note(dispatch="1")
        assert fields_of("x")["dispatch"] == "1"
    assert "dispatch" not in fields_of("x")


# --- for people ---------------------------------------------------------------------------------
def text_of(message: str, *args: object, **extra: Any) -> str:
    record = logging.LogRecord("apps.x", logging.ERROR, "f.py", 1, message, args, None)
    record.__dict__.update({"created": 1_763_631_000.5, **extra})
    return TextFormatter().format(record)


def test_text_shows_time_level_logger_message_and_what_is_at_hand() -> None:
    with bound(request_id="r1", job="7"):
        line = text_of("%d rows", 3)
    assert line == "2025-11-20T09:30:00.500Z ERROR apps.x: 3 rows [request_id=r1 job=7]"
    assert text_of("late", request=Request()).endswith(": late [request_id=r2]")


def test_text_names_the_error_in_the_first_line_and_indents_its_traceback() -> None:
    try:
        raise ValueError("broken\n2026-01-01T00:00:00.000Z ERROR forged: line")
    except ValueError:
        first, *below = text_of("failed", exc_info=sys.exc_info()).split("\n")
    assert first.startswith("2025-11-20T09:30:00.500Z ERROR apps.x: failed: ")
    assert below[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in below)


def test_hostile_text_stays_on_one_line_that_commands_no_terminal() -> None:
    line = text_of("%s", "a\r\n\x1b[2J\x9b31m\u202e\u2028巡\ud800\0")
    assert line.isprintable()
    assert line.endswith(r"a\r\n\x1b[2J\x9b31m\u202e\u2028巡\ud800\x00")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_private_key_logged_line_by_line_is_hidden_from_its_first_line_to_its_last(
    formatter: logging.Formatter,
) -> None:
    def formatted(text: str) -> str:
        record = logging.LogRecord("apps.x", logging.INFO, "f.py", 1, "%s", (text,), None)
        return formatter.format(record)

    lines = [formatted(each) for each in PRIVATE_KEY]
    # Another thread says something meanwhile.
    formatted(PRIVATE_KEY[0])
    other = threading.Thread(target=lambda: lines.append(formatted("hunter")))
    other.start()
    other.join()
    formatted(PRIVATE_KEY[-1])

    said = "\n".join([*lines, formatted("MIIB")])
    assert all(code not in said for code in CODE)
    assert all(word in said for word in ("-----END", "DEK-Info", "hunter", "MIIB"))
