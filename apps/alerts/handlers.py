"""The handler of the jobs that deliver messages."""

from __future__ import annotations

from typing import Any

from apps.alerts.channels.contract import FAIL, RETRY
from apps.alerts.models import Delivery
from apps.alerts.services.notify import TYPE, TYPE_SETTINGS
from apps.alerts.services.sending import AT_MOST, send
from apps.jobs.handlers import Context, Fail, Retry, handler


@handler(TYPE, **TYPE_SETTINGS)
def deliver(context: Any, ctx: Context) -> Any:
    """Send one message; what is over already is not sent again."""
    rows = Delivery.objects.select_related("channel", "report__plan__owner")
    delivery = rows.filter(pk=context["delivery"]).first()
    if delivery is None:
        raise Fail("The delivery does not exist any more: its rule or channel was deleted.")
    if delivery.state == Delivery.State.SENT:
        return {"code": delivery.code}
    verdict = send(delivery, attempt=ctx.attempt, is_last=ctx.attempt >= ctx.max_attempts)
    if verdict is None:
        raise Retry(AT_MOST, "Somebody else is sending it.")
    if verdict.outcome == RETRY:
        raise Retry(verdict.wait, verdict.text or "The message was not taken.", is_asked=True)
    if verdict.outcome == FAIL:
        raise Fail(verdict.text or "The message was refused.")
    return {"code": delivery.code}
