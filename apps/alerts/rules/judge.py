"""Whether a rule begins, fires, repeats or ends an alert: pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from apps.alerts.rules.kinds import KINDS

# A firing alert ends when the value is this far on the good side of the threshold, so that a value
# that wavers around it does not fire again and again.
SLACK = 0.9

NOTHING = "nothing"
PENDING = "pending"  # begins: the condition holds, not yet long enough
FORGET = "forget"  # was pending, and the condition does not hold any more
FIRE = "fire"
REPEAT = "repeat"  # still firing, and it is time to say so again
RESOLVE = "resolve"
KEEP = "keep"  # nothing changes


class Terms(NamedTuple):
    """The terms of a rule that decide; without `threshold` a reading itself is the condition."""

    kind: str
    threshold: float | None
    for_seconds: int
    repeat_minutes: int | None = None


class Open(NamedTuple):
    """An alert that is not resolved; `fired_at` is None while it is pending."""

    since: datetime
    fired_at: datetime | None = None
    notified_at: datetime | None = None
    snoozed_until: datetime | None = None


def is_wrong(terms: Terms, value: float, *, is_firing: bool = False) -> bool:
    """Whether the value is on the wrong side; of a firing alert, not yet far enough on the good."""
    if terms.threshold is None:
        return True
    if KINDS[terms.kind].rises:
        return value >= terms.threshold * (SLACK if is_firing else 1)
    return value < min(terms.threshold / (SLACK if is_firing else 1), KINDS[terms.kind].highest)


def judge(
    terms: Terms, value: float | None, alert: Open | None, now: datetime, *, is_known: bool = True
) -> str:
    """What becomes of the alert about one subject, of which None is not open, by what was read.

    The value is None when there is nothing to read of the subject any more. While too little is
    known of it to tell, everything stays as it is.
    """
    is_firing = alert is not None and alert.fired_at is not None
    wrong = is_firing
    if is_known:
        wrong = value is not None and is_wrong(terms, value, is_firing=is_firing)
    if alert is None:
        if not wrong:
            return NOTHING
        return PENDING if terms.for_seconds else FIRE
    if not is_firing:
        if not is_known:
            return KEEP
        if not wrong:
            return FORGET
        return FIRE if now - alert.since >= timedelta(seconds=terms.for_seconds) else KEEP
    if not wrong:
        return RESOLVE
    return REPEAT if _is_to_be_told_again(terms, alert, now) else KEEP


def _is_to_be_told_again(terms: Terms, alert: Open, now: datetime) -> bool:
    """By the rule, or because it was snoozed after people were notified and the time is over, or
    because nobody knows of it yet."""
    snoozed = alert.snoozed_until
    if snoozed is not None and now < snoozed:
        return False
    if alert.notified_at is None:
        return True
    if snoozed is not None and alert.notified_at < snoozed:
        return True
    repeats = terms.repeat_minutes
    return repeats is not None and now - alert.notified_at >= timedelta(minutes=repeats)
