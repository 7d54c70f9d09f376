"""How long stretches of which level are kept, and what that says of a period."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apps.reports.rules.cover import DAY, LEVELS, WHOLE, Range, floor

# All others stay for ever.
_FORGOTTEN = tuple(level for level in LEVELS if level < DAY)


def horizons(
    now: int, kept: Mapping[int, int], stored: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Since when stretches of each level below days are kept, by the seconds that they are; and not
    from before the oldest `stored` one, if that is given.

    Each lies at the start of a stretch of the next level, and none before that of a coarser one, so
    whatever is kept of a stretch is the whole of it.
    """
    found: dict[int, int] = {}
    for level in reversed(_FORGOTTEN):
        whole = WHOLE[level]
        # What finer ones tell can be summed up.
        oldest = min((at for each, at in (stored or {}).items() if each <= level), default=0)
        oldest = -(-oldest // whole) * whole
        found[level] = max([floor(now - kept[level], whole), oldest, *found.values()])
    return found


def level_at(second: int, since: Mapping[int, int]) -> int:
    """The finest level kept at an instant, given the horizons."""
    for level in _FORGOTTEN:
        if second >= since[level]:
            return level
    return DAY


def start_at(second: int, since: Mapping[int, int]) -> int:
    """The start of the finest stretch kept in which the instant lies."""
    return floor(second, level_at(second, since))


def end_at(second: int, since: Mapping[int, int]) -> int:
    """The end of the finest stretch kept in which the instant lies, or at which it ends."""
    return start_at(second - 1, since) + level_at(second - 1, since)


def stretches(start: int, end: int, since: Mapping[int, int]) -> list[tuple[int, int]]:
    """The finest stretches kept that lie in [start, end), as (level, start), ascending.

    The bounds are boundaries of such stretches.
    """
    found = []
    at = start
    while at < end:
        level = level_at(at, since)
        found.append((level, at))
        at += level
    return found


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same instants as ranges that are ascending and apart."""
    found: list[Range] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
