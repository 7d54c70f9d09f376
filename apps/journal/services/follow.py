"""Following the journal: every entry once in the order of ids, and what was committed late.

Ids are made before the commit, so those of the last JOURNAL_GRACE are left for the next time. What
is committed even later is found by counting: once a minute, the numbers of entries of the last
minutes are compared with those that were delivered.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apps.common import clock, ids
from apps.journal.conf import conf
from apps.journal.services.lines import BLOCK, lines_between, next_lines
from apps.journal.services.minutes import MINUTE, counted, first_id, minute_of, second_of
from apps.journal.sinks import Line

Deliver = Callable[[Sequence[Line]], None]


@dataclass
class Position:
    """All entries up to the id `after` were delivered, `counts` of each of the last minutes.

    Late ones were looked for up to the second `checked`, and never before the second `since`.
    """

    after: int
    since: int
    checked: int
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at_present(cls, now: datetime) -> Position:
        """Where a new follower begins: with the present minute."""
        start = second_of(now) // MINUTE * MINUTE
        return cls(first_id(start) - 1, start, start)

    def note(self, lines: Iterable[Line]) -> None:
        for line in lines:
            minute = minute_of(line.id)
            self.counts[minute] = self.counts.get(minute, 0) + 1

    def forget(self, late: int) -> None:
        """Forget the counts of minutes that will not be compared: only those within `late` seconds
        of the last check and of the newest entry are."""
        ends = (self.checked, minute_of(self.after) + MINUTE)
        self.counts = {
            minute: count
            for minute, count in self.counts.items()
            if any(end - late - MINUTE <= minute < end for end in ends)
        }


class Seen:
    """The ids that this process has delivered of each of the last minutes."""

    def __init__(self) -> None:
        self._ids: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))

    def note(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._ids[minute_of(line.id)].append(line.id)

    def all_of(self, minute: int, count: int) -> frozenset[int]:
        """The delivered ids of the minute, if this process delivered all `count` of them."""
        known = self._ids.get(minute, array("q"))
        return frozenset(known) if len(known) == count else frozenset()

    def forget(self, minutes: Iterable[int]) -> None:
        for minute in minutes:
            self._ids.pop(minute, None)

    def keep(self, minutes: Collection[int]) -> None:
        """Forget all others."""
        self.forget(self._ids.keys() - minutes)


def follow(
    at: Position, deliver: Deliver, keep: Callable[[], None], *, seen: Seen, until: datetime
) -> None:
    """Deliver what is new, in blocks, until there is no more or the clock has passed `until`.

    `deliver` returns when its lines are acknowledged, or raises; then nothing more is delivered.
    `keep` saves the position after each block.
    """
    while clock.now() < until:
        now = clock.now() - conf.JOURNAL_GRACE
        lines = next_lines(at.after + 1, ids.lowest_id_at(now))
        if lines:
            deliver(lines)
            at.after = lines[-1].id
            at.note(lines)
            seen.note(lines)
            _forget(at, seen)
            keep()
        if len(lines) < BLOCK:
            _follow_late(at, deliver, keep, seen, second_of(now) // MINUTE * MINUTE)
            return


def _follow_late(
    at: Position, deliver: Deliver, keep: Callable[[], None], seen: Seen, closed: int
) -> None:
    """Deliver what was committed late into minutes before `closed`, once for each minute."""
    if at.checked >= closed:
        return
    late = conf.JOURNAL_LATE // timedelta(seconds=1)
    # If there was a pause between the two checks, only minutes just before it can be incomplete.
    windows = {
        minute
        for end in (at.checked, closed)
        for minute in range((end - late) // MINUTE * MINUTE, end, MINUTE)
        if minute >= at.since
    }
    for minute, count in sorted(counted(sorted(windows)).items()):
        delivered = at.counts.get(minute, 0)
        if count > delivered:
            known = seen.all_of(minute, delivered)
            is_new = not known
            for lines in lines_between(first_id(minute), first_id(minute + MINUTE)):
                missing = [line for line in lines if line.id not in known]
                if missing:
                    deliver(missing)
                    if is_new:
                        seen.forget([minute])
                        at.counts[minute], is_new = 0, False
                    at.note(missing)
                    seen.note(missing)
                    keep()
    at.checked = closed
    _forget(at, seen)
    keep()


def _forget(at: Position, seen: Seen) -> None:
    at.forget(conf.JOURNAL_LATE // timedelta(seconds=1))
    seen.keep(at.counts.keys())
