"""Deliveries that no worker has sent: the sweep sends them itself, so that people are notified of
the very lack of workers."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from apps.alerts.channels.contract import OK
from apps.alerts.models import Delivery, Event
from apps.alerts.services import report_runs
from apps.alerts.services.notify import policy
from apps.alerts.services.sending import send
from apps.common import clock
from apps.common.db import apart
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.rules import transitions as t
from apps.jobs.services.find import find_each

# Workers have so much time after a try is due.
WAITS = timedelta(seconds=60)
# Older news are none: nothing waits longer, such as that of a platform that stood still.
LONGEST = timedelta(days=1)
_AT_ONCE = 200
TOO_LATE = _("It was not sent within a day.")
NEVER_ENDED = _("It was not sent: none of its tries came to an end; the log says why.")
JOB_ENDED = _("It was not sent: somebody ended its job.")


def send_waiting(*, until: datetime) -> int:
    """Send what has waited for a worker, or end what is not to be sent; returns how many were sent.

    Stops between two deliveries when the clock has passed `until`; the next call goes on there.
    """
    now = clock.now()
    report_runs.begin_late(now - LONGEST, now - WAITS)
    rows = overdue(now - WAITS).select_related("channel")
    sent = 0
    # Servers that do not answer take ten seconds each, and news do not wait for their next tries.
    for delivery in rows.order_by("tries", "created_at")[:_AT_ONCE]:
        if clock.now() >= until:
            break
        with apart(f"delivery {delivery.pk}"):
            sent += _carry_out(delivery)
    return sent


def overdue(before: datetime) -> QuerySet[Delivery]:
    """The waiting deliveries whose next try was due before the instant, and that nobody has taken
    since."""
    is_due = Q(next_at=None) | Q(next_at__lte=before)
    is_free = Q(taken_until=None) | Q(taken_until__lte=before)
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING, created_at__lte=before)
    return waiting.filter(is_due, is_free)


def _carry_out(delivery: Delivery) -> bool:
    most = 1 if delivery.event == Event.TEST else policy().max_attempts
    if why := _why_not(delivery, most):
        _end(delivery, why)
        return False
    attempt = delivery.tries + 1
    verdict = send(delivery, attempt=attempt, is_last=attempt >= most)
    return verdict is not None and verdict.outcome == OK


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
