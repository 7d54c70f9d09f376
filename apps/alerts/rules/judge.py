"""Whether a rule begins, fires, repeats or ends an alert: pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from apps.reports.rules.limits import Limit

NOTHING = "nothing"
PENDING = "pending"  # begins: the condition holds, not yet long enough
FORGET = "forget"  # was pending, and the condition does not hold any more
FIRE = "fire"
REPEAT = "repeat"  # still firing, and it is time to say so again
RESOLVE = "resolve"
KEEP = "keep"  # nothing changes


class Open(NamedTuple):
    """An alert that is not resolved; `fired_at` is None while it is pending."""

    since: datetime
    fired_at: datetime | None = None
    notified_at: datetime | None = None
    snoozed_until: datetime | None = None


def judge(
    limit: Limit,
    value: float | None,
    alert: Open | None,
    now: datetime,
    *,
    is_known: bool = True,
    repeat_minutes: int | None = None,
) -> str:
    """Decide by a reading what becomes of the alert about one subject; None is no open alert.

    The value is None when there is nothing to read of the subject any more. While too little is
    known of the subject (not `is_known`), everything stays as it is.
    """
    is_firing = alert is not None and alert.fired_at is not None
    wrong = is_firing
    if is_known:
        wrong = value is not None and limit.is_passed(value, was_passed=is_firing)
    if alert is None:
        if not wrong:
            return NOTHING
        return PENDING if limit.for_seconds else FIRE
    if not is_firing:
        if not is_known:
            return KEEP
        if not wrong:
            return FORGET
        return FIRE if now - alert.since >= timedelta(seconds=limit.for_seconds) else KEEP
    if not wrong:
        return RESOLVE
    return REPEAT if _is_repeat_due(alert, now, repeat_minutes) else KEEP


def _is_repeat_due(alert: Open, now: datetime, repeat_minutes: int | None) -> bool:
    """Whether people are to be notified again: by the rule, or because a snooze has ended since the
    last message, or because nobody has been notified yet."""
    snoozed = alert.snoozed_until
    if snoozed is not None and now < snoozed:
        return False
    if alert.notified_at is None:
        return True
    if snoozed is not None and alert.notified_at < snoozed:
        return True
    if repeat_minutes is None:
        return False
    return now - alert.notified_at >= timedelta(minutes=repeat_minutes)
