"""How long ended jobs are kept in the archive."""

from __future__ import annotations

from datetime import datetime, timedelta


def horizon(now: datetime, *, retention: timedelta, days: int | None = None) -> datetime | None:
    """The instant before which ended jobs are forgotten; None = never, as a retention of 0 says.

    `days` is the retention of the type, which can only be shorter.
    """
    own = timedelta(days=days) if days is not None else timedelta()
    kept = min((each for each in (retention, own) if each), default=None)
    return None if kept is None else now - kept


def possible_days(*, retention: timedelta, archive_after: timedelta) -> tuple[int, int | None]:
    """The least and greatest number of whole days for which jobs of a type can be kept: until they
    are in the archive, and not longer than others; None = any number."""
    day = timedelta(days=1)
    return max(1, -(-archive_after // day)), retention // day if retention else None


def is_possible(days: int, *, retention: timedelta, archive_after: timedelta) -> bool:
    """Whether the days of a type are among the possible ones."""
    least, most = possible_days(retention=retention, archive_after=archive_after)
    return least <= days and (most is None or days <= most)
