"""The handler of bulk runs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from apps.bulk.models import BulkRun
from apps.bulk.rules.pace import Pace
from apps.bulk.rules.settings import TYPE, TYPE_SETTINGS
from apps.bulk.services.carry import AS_ASKED, NO_RUN, Carrier, note_stopped
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.handlers import Cancelled, Context, Fail, Later, handler

# How soon a pause between two rounds notices that it should end.
_NAP_SECONDS = 0.2


@handler(
    TYPE,
    about=_("Carry out a bulk run at its rate; a try goes on where the one before it ended."),
    **TYPE_SETTINGS,
)
def bulk(context: Any, ctx: Context) -> Any:
    run = BulkRun.objects.filter(pk=context["run"], job=ctx.job_id).first()
    if run is None:
        raise Fail(Message(NO_RUN, run=context["run"]))
    carrier, pace = Carrier(run), Pace(run.rate, time.monotonic())
    while run.is_under_way:
        if ctx.cancelled:
            note_stopped(run.pk)
            raise Cancelled
        if ctx.stopping:
            raise Later(timedelta(0))
        before, run = run.handled, carrier.round()
        ctx.progress(int(100 * run.handled / run.collected) if run.handled else 0)
        _sleep(pace.wait(run.handled - before, time.monotonic()), ctx)
    if run.state == BulkRun.State.STOPPED:
        raise Cancelled(run.why or AS_ASKED)
    return {
        name: getattr(run, name) for name in ("state", "collected", "done", "skipped", "failed")
    }


def _sleep(seconds: float, ctx: Context) -> None:
    until = time.monotonic() + seconds
    while not (ctx.cancelled or ctx.stopping) and (left := until - time.monotonic()) > 0:
        time.sleep(min(_NAP_SECONDS, left))
