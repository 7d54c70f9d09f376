"""The window of due instants that an executor is served from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
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

    `latest_done` is the occurrence_at of the executor's latest dispatch that succeeded or failed,
    None when there is none. The lower end follows it, but stays at least `hours` back, so that
    work created late, joined late or given back is not lost, and at most `lookback`, so that a
    long-idle executor slides forward; a newcomer starts there. The upper end is `hours` from now.
    """
    reach = timedelta(hours=hours)
    earliest = now - lookback
    if latest_done is not None:
        earliest = max(earliest, min(latest_done, now - reach))
    return Window(earliest, now + reach)
