"""Handlers of the benchmark's workers, found because they name this package in EXTRA_APPS."""

from __future__ import annotations

import time
from typing import Any

from apps.jobs.handlers import Context, Done, Submission, handler


@handler("noop", batch_limit=1000)
def noop(context: Any) -> None:
    """Nothing: what is measured is all the rest."""


@handler("ten-lines", batch_limit=1000)
def ten_lines(context: Any, ctx: Context) -> None:
    """Nothing but lines in the log of the job."""
    for number in range(10):
        ctx.log(f"page {number} of 10 is done")


@handler("leading", batch_limit=1000)
def leading(context: Any) -> Done:
    """Nothing but a follow-up."""
    return Done(then=[Submission("noop")])


@handler("stamp")
def stamp(context: Any) -> float:
    """Seconds since the submitter read the clock, which all processes of a machine share."""
    return time.monotonic() - float(context["at"])
