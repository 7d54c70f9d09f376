"""Sending reports: each run of a plan has a delivery to each of its channels, which are made and
sent by the job of the run. So a repeated try sends none of them twice."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from apps.alerts.conf import conf
from apps.alerts.models import Delivery, Event, ReportPlan
from apps.alerts.services.report_plans import enabled_channels, find_plan, why_not
from apps.alerts.services.sending import sending
from apps.alerts.services.side_by_side import send_each
from apps.common import clock
from apps.common.db import apart, transactional
from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.common.messages import wire_time
from apps.schedules.models import ScheduleRun
from apps.schedules.rules.trouble import OPEN
from apps.schedules.services import schedules

_AT_ONCE = 200
FORGOTTEN = _("It is not known any more who has it; use “Send now” on the page of the plan.")


def send_now(*, plan: ReportPlan, actor: str, reason: str = "") -> ScheduleRun:
    """Send it at once, beside the times of its rule; Conflict when that cannot be."""
    if why := why_not(plan):
        raise Conflict(why)
    return schedules.run_now(schedule=plan, actor=actor, reason=reason)


@transactional
def begin(job: int) -> list[Delivery]:
    """The deliveries of the run that has this job, made at the first call. NotFound or Conflict
    when the report cannot be sent."""
    plan = find_plan(runs__job=job)
    run = plan.runs.select_for_update().get(job=job)
    if made := [*Delivery.objects.filter(job=job).select_related("channel").order_by("pk")]:
        return made
    now = clock.now()
    why = why_not(plan) if run.at > now - conf.ALERT_RETENTION else FORGOTTEN
    if why:
        raise Conflict(why)
    # Its figures are read when it is sent, with the rights that the owner has then.
    message = {"title": plan.title, "text": "", "plan": plan.pk, "at": wire_time(run.at)}
    of = {"event": Event.REPORT, "job": job, "message": message, "created_at": now}
    return [Delivery.objects.create(channel=each, **of) for each in enabled_channels(plan)]


def carry_out(job: int, *, is_first: bool, is_last: bool) -> list[Delivery]:
    """Send what is due of the run that has this job; returns its deliveries.

    The first attempt, also that of a retry by a person, sends what has failed before, too; the last
    one ends all that wait.
    """
    due = []
    for delivery in begin(job):
        is_due = is_last or delivery.next_at is None or delivery.next_at <= clock.now()
        states = {Delivery.State.WAITING: is_due, Delivery.State.FAILED: is_first}
        if states.get(Delivery.State(delivery.state), False):
            due.append(delivery)
    send_each(due, lambda each: sending(each, attempt=each.tries + 1, is_last=is_last))
    return [*Delivery.objects.filter(job=job).order_by("pk")]


def wait_of(delivery: Delivery) -> timedelta:
    """How long it is until the next try of a delivery that waits."""
    due = max(each for each in (delivery.taken_until, delivery.next_at, clock.now()) if each)
    return due - clock.now()


def begin_late(since: datetime, before: datetime) -> None:
    """Make the deliveries of the runs of that time that no worker has begun, for the sweep."""
    late = ScheduleRun.objects.filter(
        ~Exists(Delivery.objects.filter(job=OuterRef("job"))),
        schedule__in=ReportPlan.objects.not_deleted().values("pk"),
        outcome=OPEN,
        at__range=(since, before),
    )
    for run in late.order_by("pk")[:_AT_ONCE]:
        with apart(str(run)):
            if why_not(find_plan(pk=run.schedule_id)) is None:
                begin(run.job or 0)
