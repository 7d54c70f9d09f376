"""The handler of bulk runs."""

from __future__ import annotations

import time
from typing import Any

from apps.bulk.models import BulkRun
from apps.bulk.rules.settings import TYPE, TYPE_SETTINGS
from apps.bulk.services.carry import Carrier, note_stopped
from apps.jobs.handlers import Cancelled, Context, Fail, Retry, handler

# How soon a pause between two rounds notices that it should end.
_NAP_SECONDS = 0.2


@handler(TYPE, **TYPE_SETTINGS)
def bulk(context: Any, ctx: Context) -> Any:
    """Carry out a bulk run at its rate; an attempt goes on where the one before it ended."""
    run = BulkRun.objects.filter(pk=context["run"], job=ctx.job_id).first()
    if run is None:
        raise Fail(f"There is no bulk run {context['run']} of this job; start runs by their page.")
    carrier, pace = Carrier(run), Pace(run)
    while run.is_under_way:
        if ctx.cancelled:
            note_stopped(run.pk)
            raise Cancelled
        if ctx.stopping:
            raise Retry(0, "its worker stops")
        run = carrier.round()
        ctx.progress(int(100 * run.handled / run.collected) if run.handled else 0)
        pace.keep(run, ctx)
    if run.state == BulkRun.State.STOPPED:
        raise Cancelled(run.why or "stopped as asked for")
    return {
        name: getattr(run, name) for name in ("state", "collected", "done", "skipped", "failed")
    }


class Pace:
    """Lets no more rows through than the rate of the run."""

    def __init__(self, run: BulkRun) -> None:
        self._begun, self._before = time.monotonic(), run.handled

    def keep(self, run: BulkRun, ctx: Context) -> None:
        """Wait until the rows that are through were due."""
        due = self._begun + (run.handled - self._before) / run.rate
        while not (ctx.cancelled or ctx.stopping) and (left := due - time.monotonic()) > 0:
            time.sleep(min(_NAP_SECONDS, left))
