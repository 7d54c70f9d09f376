"""When a step is looked at next that goes on: soon after its start, ever more seldom later, and at
its deadline."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.common.messages import Message as _

# Shorter than the second between two sweeps, so that each of them looks at first.
FIRST = timedelta(seconds=0.5)
# The longest time between two looks: at jobs, of which one statement sees hundreds; at tasks, for
# which people have hours; at runs that broke, each of which is logged.
LONGEST = timedelta(seconds=20)
LONGEST_OF_TASKS = timedelta(seconds=300)
LONGEST_OF_BROKEN = timedelta(seconds=60)
# What a step says whose run broke: the kind of the error alone, because its text may have values.
BROKE = _("The last look at the run broke ({error}); it is looked at again.")
# How often failed jobs are looked at, of which one may have been retried.
AT_FAILED = timedelta(hours=1)


def next_look(
    now: datetime, started_at: datetime, deadline_at: datetime | None, *, is_task: bool = False
) -> datetime:
    """Return when to look again at a step that was looked at now and goes on."""
    longest = LONGEST_OF_TASKS if is_task else LONGEST
    at = now + max(FIRST, min(longest, (now - started_at) / 10))
    return at if deadline_at is None else max(now + FIRST, min(at, deadline_at))


def look_again(now: datetime, started_at: datetime) -> datetime:
    """Return when to look again at a step that broke when it was looked at."""
    return now + min(LONGEST_OF_BROKEN, (now - started_at) / 10)
