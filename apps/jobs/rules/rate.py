"""The rate of a type: a token bucket that fills up evenly and holds six seconds' worth."""

from __future__ import annotations

from datetime import datetime

# The bucket holds the tokens of this many seconds.
BURST_SECONDS = 6.0


def tokens_at(
    per_minute: int, tokens: float | None, filled_at: datetime | None, now: datetime
) -> float:
    """How many attempts may begin now; a bucket never touched is full."""
    limit = capacity(per_minute)
    if tokens is None or filled_at is None:
        return limit
    elapsed = max(0.0, (now - filled_at).total_seconds())
    return min(limit, tokens + elapsed * per_minute / 60)


def capacity(per_minute: int) -> float:
    """The tokens of a full bucket: six seconds' worth, but one at least; none at a rate of 0."""
    return max(1.0, per_minute * BURST_SECONDS / 60) if per_minute > 0 else 0.0
