"""When an executor with work in hand has been silent for too long."""

from __future__ import annotations

from datetime import datetime, timedelta

# Sooner, silence says nothing: that somebody called is noted once a minute.
LEAST = timedelta(minutes=10)


def is_silent(*, seen_at: datetime, deadline_at: datetime, now: datetime) -> bool:
    """Whether half of the time from its last call to its deadline has passed, and LEAST."""
    return now - seen_at >= max(LEAST, (deadline_at - seen_at) / 2)
