"""When a step is looked at next that goes on: soon after its start, ever more seldom later, and at
its deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

FIRST = timedelta(seconds=1)
# The longest time between two looks; people have hours.
LONGEST = timedelta(seconds=60)
LONGEST_OF_TASKS = timedelta(seconds=300)
# How often failed jobs are looked at, of which one may have been retried.
AT_FAILED = timedelta(hours=1)


def next_look(
    now: datetime, started_at: datetime, deadline_at: datetime | None, *, is_task: bool = False
) -> datetime:
    """Of a step that was looked at now and goes on."""
    longest = LONGEST_OF_TASKS if is_task else LONGEST
    at = now + max(FIRST, min(longest, (now - started_at) / 10))
    return at if deadline_at is None else max(now + FIRST, min(at, deadline_at))
