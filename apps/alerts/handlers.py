"""The handler of the jobs that deliver messages."""

from __future__ import annotations

from typing import Any

from apps.alerts.channels.contract import FAIL, RETRY
from apps.alerts.models import Delivery
from apps.alerts.services import sending
from apps.alerts.services.notify import TYPE, TYPE_SETTINGS
from apps.alerts.services.sending import AT_MOST, send
from apps.common.messages import Message as _
from apps.jobs.handlers import Context, Fail, Retry, handler


@handler(
    TYPE,
    about=_("Send one message; what is over already is not sent again."),
    **TYPE_SETTINGS,
)
def deliver(context: Any, ctx: Context) -> Any:
    rows = Delivery.objects.select_related("channel", "report__plan__owner")
    delivery = rows.filter(pk=context["delivery"]).first()
    if delivery is None:
        raise Fail(sending.GONE)
    if delivery.state == Delivery.State.SENT:
        return {"code": delivery.code}
    verdict = send(delivery, attempt=ctx.attempt, is_last=ctx.attempt >= ctx.max_attempts)
    if verdict is None:
        raise Retry(AT_MOST, sending.BEING_SENT)
    if verdict.outcome == RETRY:
        raise Retry(verdict.wait, verdict.text or sending.NOT_TAKEN, is_asked=True)
    if verdict.outcome == FAIL:
        raise Fail(verdict.text or sending.REFUSED)
    return {"code": delivery.code}
