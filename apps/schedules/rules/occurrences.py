"""The occurrences of a schedule for which jobs are made at one moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.dispatch.rules.recurrence import EveryMinutes, Recurrence, Rule, how_many_due

ALLOW = "allow"
SKIP_OPEN = "skip"
# The identity of the one occurrence of a schedule without a rule.
ONLY = 0
_SECOND = timedelta(seconds=1)


class Due(NamedTuple):
    """The instants to make a job for, oldest first, and the first one after them."""

    instants: list[datetime]
    next_at: datetime | None


def recurrence_of(
    *,
    rule: Rule | None,
    zone: ZoneInfo,
    start_at: datetime,
    end_at: datetime | None,
) -> Recurrence:
    """The recurrence of a schedule; without a rule it is due at its start alone."""
    if rule is None:
        rule, end_at = EveryMinutes(1), start_at + _SECOND
    return Recurrence(rule=rule, zone=zone, start_at=start_at, end_at=end_at)


def due(
    recurrence: Recurrence,
    *,
    since: datetime,
    now: datetime,
    until: datetime,
    misfire: str,
    misfire_limit: int,
) -> Due:
    """The occurrences from `since` on to make at `now`, and ahead of it to `until`.

    Of those up to `now` the newest is the current one and always made, also when it is the last
    before the end; `misfire` says how many before it are made as well. No occurrence ahead is
    missed.
    """
    count = how_many_due(misfire, misfire_limit)
    newest_first = islice(recurrence.before(now), count)
    missed = [*takewhile(lambda instant: instant >= since, newest_first)][::-1]
    ahead: list[datetime] = []
    for instant in recurrence.after(max(now, since)):
        if instant > until:
            return Due(missed + ahead, instant)
        if instant > now:
            ahead.append(instant)
    return Due(missed + ahead, None)
