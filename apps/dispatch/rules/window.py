"""The window of due instants that an executor is served from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Window:
    """Instants from `lower` to before `upper`, both aware."""

    lower: datetime
    upper: datetime

    def __contains__(self, instant: datetime) -> bool:
        return self.lower <= instant < self.upper


def window(
    *, now: datetime, latest_done: datetime | None, hours: int, lookback: timedelta
) -> Window:
    """The window at `now`.

    `latest_done` is the occurrence_at of the executor's latest dispatch that succeeded or failed.
    The lower end follows it, but stays at least `hours` back, so that work created late, joined
    late or given back is not lost, and at most `lookback`, so that a long-idle executor slides
    forward. The upper end looks `hours` ahead.
    """
    ahead = timedelta(hours=hours)
    near = now - ahead
    lower = near if latest_done is None else min(latest_done, near)
    return Window(max(now - lookback, lower), now + ahead)
