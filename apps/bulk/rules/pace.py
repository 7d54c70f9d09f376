"""How fast a run goes: no more rows a second than its rate."""

from __future__ import annotations

# How much of a delay is made up for: after a longer one the rows are not all changed at once.
MAX_BEHIND_SECONDS = 2.0


class Pace:
    """Instants are seconds of one monotonic clock."""

    def __init__(self, rate: int, now: float) -> None:
        self._rate, self._due = rate, now

    def wait(self, rows: int, now: float) -> float:
        """How long to wait after a round of so many rows."""
        begun = max(self._due, now - MAX_BEHIND_SECONDS) if rows else now
        self._due = begun + rows / self._rate
        return max(0.0, self._due - now)
