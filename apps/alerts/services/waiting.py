"""Deliveries that no worker has sent: the sweep sends them itself, so that people are notified of
the very lack of workers."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from apps.alerts.models import Delivery, Event
from apps.alerts.services import report_runs
from apps.alerts.services.notify import policy
from apps.alerts.services.sending import LONGEST, TOO_LATE, Steps, sending
from apps.alerts.services.side_by_side import send_each
from apps.common import clock
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.rules import transitions as t
from apps.jobs.services.find import find_each

# Workers have so much time after a try is due.
WAITS = timedelta(seconds=60)
_AT_ONCE = 200
NEVER_ENDED = _("It was not sent: none of its tries came to an end; the log says why.")
JOB_ENDED = _("It was not sent: somebody ended its job.")


def send_waiting(*, until: datetime) -> int:
    """Send what has waited for a worker, or end what is not to be sent; returns how many were sent.

    Begins none when the clock has passed `until`; the next call goes on there.
    """
    now = clock.now()
    report_runs.begin_late(now - LONGEST, now - WAITS)
    # Servers that do not answer are asked again here, and not by workers.
    rows = overdue(now - WAITS) | overdue(now).filter(channel__silent_until__lte=now)
    # News do not wait for the next tries of what nobody takes, nor for servers that are silent.
    order = (F("channel__silent_until").asc(nulls_first=True), "tries", "created_at")
    rows = rows.select_related("channel").order_by(*order)
    return send_each(rows[:_AT_ONCE], _steps_of, until=until)


def overdue(before: datetime) -> QuerySet[Delivery]:
    """The waiting deliveries whose next try was due before the instant, and that nobody has taken
    since."""
    is_due = Q(next_at=None) | Q(next_at__lte=before)
    is_free = Q(taken_until=None) | Q(taken_until__lte=before)
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING, created_at__lte=before)
    return waiting.filter(is_due, is_free)


def _steps_of(delivery: Delivery) -> Steps | None:
    most = 1 if delivery.event == Event.TEST else policy().max_attempts
    if why := _why_not(delivery, most):
        _end(delivery, why)
        return None
    attempt = delivery.tries + 1
    return sending(delivery, attempt=attempt, is_last=attempt >= most, asks=True)


def _why_not(delivery: Delivery, most: int) -> Message | None:
    """Why the delivery is not sent any more; None if it is."""
    if delivery.created_at < clock.now() - LONGEST:
        return TOO_LATE
    if delivery.tries >= most:
        return NEVER_ENDED
    jobs = find_each([delivery.job or 0], only=("status",))
    if any(job.status in (t.CANCELLED, t.SUCCEEDED) for job in jobs.values()):
        return JOB_ENDED
    return None


def _end(delivery: Delivery, why: Message) -> None:
    """End the delivery as failed, unless somebody has taken it since it was read."""
    same = overdue(clock.now()).filter(pk=delivery.pk, tries=delivery.tries)
    same.update(state=Delivery.State.FAILED, answer=str(why), next_at=None, ended_at=clock.now())
