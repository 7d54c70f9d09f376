"""Ready-made handlers: echo, sleep, management_command."""

from __future__ import annotations

import io
import time
from datetime import timedelta
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError

from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.conf import conf
from apps.jobs.handlers.contract import Cancelled, Context, Fail, Later
from apps.jobs.handlers.registry import handler
from apps.jobs.rules import failures

MAX_SLEEP = 3600
MAX_OUTPUT = 20_000


@handler("echo", title="Echo", about=_("Return the context."))
def echo(context: Any) -> Any:
    return context


@handler(
    "sleep",
    title="Sleep",
    about=_("Do nothing for some seconds, for tests; continues where an earlier try ended."),
    lane="slow",
    max_processing_seconds=MAX_SLEEP + 60,
    params_schema={
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": MAX_SLEEP}},
        "required": ["seconds"],
        "additionalProperties": False,
    },
)
def sleep(context: Any, ctx: Context) -> Any:
    seconds = float(context["seconds"])
    slept = float(ctx.saved or 0)
    while slept < seconds:
        if ctx.cancelled:
            raise Cancelled
        if ctx.stopping:
            raise Later(timedelta(0))
        step = min(1.0, seconds - slept)
        time.sleep(step)
        slept += step
        if slept < seconds:
            ctx.checkpoint(slept, progress=int(100 * slept / seconds))
    return {"slept": seconds}


@handler(
    "management_command",
    title="Management command",
    about=_(
        "Run one of the commands of JOB_COMMANDS with arguments as in a shell; keeps its output."
    ),
    lane="slow",
    max_attempts=1,
    params_schema={
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "arguments": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)
def management_command(context: Any) -> Any:
    name = context.get("command")
    if name not in conf.JOB_COMMANDS:
        commands = ", ".join(conf.JOB_COMMANDS) or "none"
        raise Fail(Message(failures.NO_COMMAND, name=repr(name), commands=commands))
    output = io.StringIO()
    try:
        call_command(name, *context.get("arguments", ()), stdout=output, stderr=output)
    except CommandError as error:
        raise RuntimeError(f"{name}: {error}\n{_end_of(output)}") from error
    return {"output": _end_of(output)}


def _end_of(output: io.StringIO) -> str:
    return output.getvalue()[-MAX_OUTPUT:]
