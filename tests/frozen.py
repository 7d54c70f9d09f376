"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FrozenClock:
    """Called like `apps.common.clock.now`, it gives `instant` (aware, UTC)."""

    def __init__(self, instant: datetime) -> None:
        self.move_to(instant)

    def __call__(self) -> datetime:
        return self.instant

    def advance(self, **duration: float) -> datetime:
        """Go on by `seconds=`, `minutes=`, `hours=` or `days=`; the new instant."""
        return self.move_to(self.instant + timedelta(**duration))

    def move_to(self, instant: datetime) -> datetime:
        """Stand at an aware instant, which may lie earlier; the same in UTC."""
        if instant.tzinfo is None:
            raise ValueError(f"{instant} has no zone; write datetime(…, tzinfo=UTC)")
        self.instant = instant.astimezone(UTC)
        return self.instant
