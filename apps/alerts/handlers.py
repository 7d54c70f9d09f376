"""The handlers of the jobs that deliver messages and send reports."""

from __future__ import annotations

from typing import Any

from apps.alerts.channels.contract import FAIL, RETRY, WAIT
from apps.alerts.models import Delivery
from apps.alerts.services import report_runs, sending, silence
from apps.alerts.services.notify import REPORT_SETTINGS, REPORT_TYPE, TYPE, TYPE_SETTINGS
from apps.alerts.services.sending import AT_MOST, send
from apps.common.errors import PlatformError
from apps.common.messages import Message as _
from apps.jobs.handlers import Context, Fail, Later, Retry, handler


@handler(
    TYPE,
    about=_("Send one message; what is over already is not sent again."),
    **TYPE_SETTINGS,
)
def deliver(context: Any, ctx: Context) -> Any:
    rows = Delivery.objects.select_related("channel")
    delivery = rows.filter(pk=context["delivery"]).first()
    if delivery is None:
        raise Fail(sending.GONE)
    if delivery.state == Delivery.State.SENT:
        return {"code": delivery.code}
    if delivery.state == Delivery.State.FAILED and ctx.attempt > 1:
        # By the sweep: what a worker ends, ends the job, and a retry by a person begins anew.
        raise Fail(delivery.answer or sending.NOT_TAKEN)
    verdict = send(delivery, attempt=ctx.attempt, is_last=ctx.attempt >= ctx.max_attempts)
    if verdict is None:
        raise Retry(AT_MOST, sending.BEING_SENT)
    if verdict.outcome == WAIT:
        raise Later(verdict.wait or silence.A_ROUND)
    if verdict.outcome == RETRY:
        raise Retry(verdict.wait, verdict.text or sending.NOT_TAKEN, is_asked=True)
    if verdict.outcome == FAIL:
        raise Fail(verdict.text or sending.REFUSED)
    return {"code": delivery.code}


@handler(
    REPORT_TYPE,
    about=_("Send a report to the channels of its plan; to none of them twice."),
    # Workers of release 0.3.0 do not start where a type has a handler that they do not know.
    when_needed=True,
    **REPORT_SETTINGS,
)
def send_report(_context: Any, ctx: Context) -> Any:
    is_last = ctx.attempt >= ctx.max_attempts
    try:
        found = report_runs.carry_out(ctx.job_id, is_first=ctx.attempt == 1, is_last=is_last)
    except PlatformError as error:
        raise Fail(error.detail) from error
    if waiting := [each for each in found if each.state == Delivery.State.WAITING]:
        wait = min(map(report_runs.wait_of, waiting))
        raise Retry(wait, waiting[0].answer or sending.NOT_TAKEN, is_asked=True)
    if failed := [each for each in found if each.state == Delivery.State.FAILED]:
        raise Fail(failed[0].answer or sending.REFUSED)
    return {"sent": len(found)}
