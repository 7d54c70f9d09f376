"""Sending reports: one run for each time of a plan, with a delivery to each of its channels."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.conf import settings
from django.urls import reverse

from apps.alerts.models import Channel, Event, ReportPlan, ReportRun
from apps.alerts.services.notify import deliver
from apps.common import clock
from apps.common.db import apart, transactional
from apps.common.errors import Conflict, Invalid, NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules.recurrence import occurrence_of
from apps.journal.services.edit import record_edit
from apps.reports.permissions import may_report

logger = logging.getLogger(__name__)

# Plans that one round deals with; the others follow in the next.
MAX_DUE = 500
DELETED = _("Its owner was deleted. Save the plan to send it with your rights.")
DISABLED = _("Its owner may not sign in any more. Save the plan to send it with your rights.")
FORBIDDEN = _("Its owner may not see reports any more. Save the plan to send it with your rights.")
NO_CHANNEL = _("None of its channels is enabled.")


def send_due(*, until: datetime) -> int:
    """Make the deliveries of what is due; returns how many.

    Of the times that were missed the newest is sent. Stops between two plans when the clock has
    passed `until`; the next call goes on there.
    """
    due = ReportPlan.objects.filter(next_at__lte=clock.now()).order_by("next_at", "pk")
    made = 0
    for pk in list(due.values_list("pk", flat=True)[:MAX_DUE]):
        if clock.now() >= until:
            break
        with apart(f"report plan {pk}"):
            made += _send_if_due(pk)
    return made


@transactional
def _send_if_due(pk: int) -> int:
    plan, now = _locked(pk), clock.now()
    # Another round or an edit may have come first.
    if plan is None or plan.next_at is None or plan.next_at > now:
        return 0
    newest: datetime | None = None
    try:
        newest = next(plan.recurrence.before(now), plan.next_at)
        plan.next_at = next(iter(plan.times_after(now, 1)), None)
    except Invalid as error:
        logger.warning("report plan %d cannot be read: %s", plan.pk, error.detail)
        plan.next_at = None
    made = 0 if newest is None else _begin(plan, occurrence_of(newest), at=newest, now=now)
    plan.save(update_fields=["next_at"])
    return made


@transactional
def send_now(*, plan: ReportPlan, actor: str, reason: str = "") -> ReportRun:
    """Send it at once, beside the times of its rule; Conflict when that cannot be."""
    current, now = _locked(plan.pk), clock.now()
    if current is None:
        raise NotFound(_("The report plan does not exist any more."))
    if why := why_not(current):
        raise Conflict(why)
    occurrence = -int(now.timestamp() * 1000)
    _begin(current, occurrence, at=now, now=now)
    record_edit(current, "report_sent", now=now, actor=actor, reason=reason)
    return ReportRun.objects.get(plan=current, occurrence=occurrence)


def why_not(plan: ReportPlan) -> Message | None:
    """Why the plan cannot be sent now; None if it can."""
    if (refused := why_not_by(plan.owner)) is not None:
        return refused
    return None if _channels(plan) else NO_CHANNEL


def why_not_by(owner: Any) -> Message | None:
    """Why reports of this owner are not sent; None if they are."""
    if owner is None:
        return DELETED
    if not owner.is_active or not owner.is_staff:
        return DISABLED
    return None if may_report(owner) else FORBIDDEN


def _locked(pk: int) -> ReportPlan | None:
    return ReportPlan.objects.select_for_update().filter(pk=pk).first()


def _channels(plan: ReportPlan) -> list[Channel]:
    return list(plan.channels.filter(enabled=True).order_by("pk"))


def _begin(plan: ReportPlan, occurrence: int, *, at: datetime, now: datetime) -> int:
    """Write the run, which is unique, and its deliveries; returns how many."""
    why = why_not(plan)
    run, is_new = ReportRun.objects.get_or_create(
        plan=plan, occurrence=occurrence, defaults={"at": at, "why": why or ""}
    )
    channels = _channels(plan) if is_new and not why else []
    url = f"{settings.PUBLIC_URL}{reverse('report')}?{plan.query}"
    for channel in channels:
        # Its figures are read when it is sent, with the rights that the owner has then.
        message = {"title": plan.title, "text": "", "url": url, "open": "", "wire": {}}
        deliver(channel, Event.REPORT, message, now=now, report=run)
    return len(channels)
