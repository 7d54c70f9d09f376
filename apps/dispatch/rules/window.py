"""The window of due instants that everybody is served from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Window:
    """Instants after `lower` and before `upper`, both aware."""

    lower: datetime
    upper: datetime

    def __contains__(self, instant: datetime) -> bool:
        return self.lower < instant < self.upper


def window(*, now: datetime, hours: int, lookback: timedelta) -> Window:
    """The window at `now`: what is due at an instant stays in it for `lookback`.

    It is the same for all, whatever they have finished: nothing planned falls out of reach because
    something due later was done first. The upper end is that of a queue built now.
    """
    return Window(now - lookback, now + timedelta(hours=hours))
