"""A clock that stands still until a test moves it, and the ids that are made meanwhile."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.common.ids import IdMaker


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


def id_maker(*, node: int) -> IdMaker:
    """With a lease at hand for ever, so that it asks the database for none: one that is taken in
    the transaction of a test is looked up for each of its ids."""
    from apps.common import ids

    maker = ids.IdMaker()
    maker._lease = ids._Lease(node, "", datetime.max.replace(tzinfo=UTC), os.getpid())
    return maker
