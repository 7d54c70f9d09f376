"""The rate of a type: a bucket of tokens that fills up evenly and holds at most a minute's."""

from __future__ import annotations

from datetime import datetime

# So much of a minute's tokens may be spent at once.
BURST_SECONDS = 6.0


def tokens_at(
    per_minute: int, tokens: float | None, filled_at: datetime | None, now: datetime
) -> float:
    """How many attempts may begin now; a bucket never touched is full."""
    most = capacity(per_minute)
    if tokens is None or filled_at is None:
        return most
    elapsed = max(0.0, (now - filled_at).total_seconds())
    return min(most, tokens + elapsed * per_minute / 60)


def capacity(per_minute: int) -> float:
    """What the bucket holds: six seconds' worth, but one token at least; none at a rate of 0."""
    return max(1.0, per_minute * BURST_SECONDS / 60) if per_minute > 0 else 0.0
