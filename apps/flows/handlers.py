"""The ready-made handler that starts a run, so that schedules and other programs can."""

from __future__ import annotations

from typing import Any

from apps.common.errors import PlatformError
from apps.common.messages import Message as _
from apps.common.readers import read_number
from apps.flows.services.start import start_once
from apps.jobs.handlers import Fail, handler
from apps.jobs.handlers.contract import Context
from apps.jobs.services.request import Request

NAME = "flow"


def starter(key: str, job: int) -> str:
    """Return who starts the run of this job: the schedule in its key `schedule:7@…`, or the job."""
    schedule, at, _second = key.partition("@")
    kind, _colon, number = schedule.partition(":")
    by_schedule = at and kind == "schedule" and read_number(number) is not None
    return schedule if by_schedule else f"job:{job}"


@handler(
    NAME,
    title="Start a flow",
    about=_("Start a run of a saved flow with these params; at most one of its key is open."),
    reaches_further=True,
    params_schema={
        "type": "object",
        "properties": {
            "flow": {"type": "string"},
            "params": {"type": "object"},
            "key": {"type": "string"},
        },
        "required": ["flow"],
        "additionalProperties": False,
    },
)
def flow(context: Any, ctx: Context) -> Any:
    # An attempt that is repeated after its worker died starts no second run.
    request = Request(NAME, str(ctx.job_id), context)
    try:
        made = start_once(
            request,
            flow=context["flow"],
            params=context.get("params"),
            key=context.get("key", ""),
            by=starter(ctx.key, ctx.job_id),
            trace_id=ctx.trace_id,
        )
    except PlatformError as error:
        raise Fail(error.detail) from error
    return {"run": str(made.id), "created": made.created}
