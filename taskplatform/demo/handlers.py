"""Handlers of the demo's jobs that no ready-made one runs: an order with a log and a follow-up."""

from __future__ import annotations

import time
from typing import Any

from apps.common.messages import Message as _
from apps.jobs.handlers import Context, Done, Submission, handler

ORDER, RECEIPT = "demo-order", "demo-receipt"
LINES = 10
LINE_SECONDS = 0.5


@handler(ORDER, when_needed=True, about=_("Pack an order of the demo, and log each step."))
def order(context: Any, ctx: Context) -> Done:
    shop = context["shop"]
    ctx.log(f"{shop} orders {LINES - 2} parts")
    for part in range(1, LINES - 1):
        time.sleep(LINE_SECONDS)
        ctx.log(f"part {part} is packed")
    ctx.log("the parcel is closed; a receipt follows")
    receipt = Submission(RECEIPT, {"shop": shop, "order": ctx.key}, key=ctx.key)
    return Done({"parts": LINES - 2}, then=[receipt])


@handler(RECEIPT, when_needed=True, about=_("Send the receipt of an order of the demo."))
def receipt(context: Any) -> Any:
    return {"sent_to": context["shop"]}
