"""When a rotation is due: every N minutes, every K days at a local time, or by cron.

Occurrences are values worked out from the rule alone, never from when or where that is done, so
every process gets the same ones. All instants are aware, in UTC and on whole seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from apps.common.errors import Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.zones import DAY, EPOCH, first_passes, known_zone, parse_zone, wall_at
from apps.dispatch.rules.cron import Cron, parse_cron, require_meaning

MINUTES = (1, 527_040)
DAYS = (1, 366)

SKIP = "skip"
ONCE = "once"
ALL = "all"

_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?")
_SECOND = timedelta(seconds=1)
# Local dates near the ends of the calendar cannot be computed in every zone.
_EARLIEST = (datetime(2, 1, 1, tzinfo=UTC) - EPOCH) // _SECOND
_LATEST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // _SECOND


@dataclass(frozen=True)
class EveryMinutes:
    """Due at the start and every `minutes` elapsed minutes after it, whatever the clocks do."""

    minutes: int

    def instants(
        self, zone: ZoneInfo, start: int, low: int, high: int, *, reverse: bool
    ) -> Iterable[int]:
        """The due instants in [low, high), ascending or in reverse; the zone does not matter."""
        return _grid(start, self.minutes * 60, low, high, reverse=reverse)

    def phase(self, zone: ZoneInfo, start: int) -> int:
        """A number, equal for two starts from which the rule is due at the same instants."""
        return start % (self.minutes * 60)


@dataclass(frozen=True)
class EveryDays:
    """Due at one local time every `days` dates, counted from the local date of the start.

    In a gap it is due at the first valid moment after it, in a fold at the first pass; a date that
    the zone skips as a whole has no instant.
    """

    days: int
    at: time

    def instants(
        self, zone: ZoneInfo, start: int, low: int, high: int, *, reverse: bool
    ) -> Iterable[int]:
        """The due instants in [low, high), ascending or in reverse."""
        first_date = wall_at(zone, start) // DAY
        at = self.at.hour * 3600 + self.at.minute * 60 + self.at.second
        walls = partial(_grid, first_date * DAY + at, self.days * DAY, reverse=reverse)
        return first_passes(zone, walls, low, high)

    def phase(self, zone: ZoneInfo, start: int) -> int:
        """A number, equal for two starts from which the rule is due at the same instants."""
        return (wall_at(zone, start) // DAY) % self.days


def _grid(base: int, step: int, low: int, high: int, *, reverse: bool) -> range:
    """base + k · step, for k from 0, as far as it lies in [low, high)."""
    skipped = max(0, -((base - low) // step))
    grid = range(base + skipped * step, high, step)
    return grid[::-1] if reverse else grid


@dataclass(frozen=True)
class Unreadable:
    """A stored rule that cannot be read any more, or whose zone the tz database has lost: never
    due, so that it stops nothing that stands beside it."""

    why: Message | str

    def instants(
        self, zone: ZoneInfo, start: int, low: int, high: int, *, reverse: bool
    ) -> Iterable[int]:
        """None."""
        return ()

    def phase(self, zone: ZoneInfo, start: int) -> int:
        """A number, equal for two starts from which the rule is due at the same instants."""
        return 0


Rule: TypeAlias = EveryMinutes | EveryDays | Cron | Unreadable


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """A rule with its zone and its limits: instants from start_at to before end_at.

    Instants before `effective_from` do not exist: a rule that was edited or resumed then says
    nothing about the past. Fractions of a second of the three count as the next whole one.
    """

    rule: Rule
    zone: ZoneInfo
    start_at: datetime
    end_at: datetime | None = None
    effective_from: datetime | None = None

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The due instants from `instant` on, itself included, ascending; lazily, they are many."""
        return self._instants(_ceil(instant), _LATEST, reverse=False)

    def before(self, instant: datetime) -> Iterator[datetime]:
        """The due instants up to `instant`, itself included, the newest first; lazily."""
        return self._instants(_EARLIEST, _floor(instant) + 1, reverse=True)

    def is_same_from(self, now: datetime, other: Recurrence) -> bool:
        """Whether the other series, with the same rule and zone, is due at the same instants from
        `now` on; False for one that begins or ends at another time ahead."""
        if self.has_ended(now) and other.has_ended(now):
            return True
        if self.end_at != other.end_at or max(self.start_at, other.start_at) > now:
            return False
        mine, its = (self.rule.phase(self.zone, _ceil(each.start_at)) for each in (self, other))
        return mine == its

    def has_ended(self, now: datetime) -> bool:
        """Whether nothing is due from `now` on, because its end has passed."""
        return self.end_at is not None and self.end_at <= now

    def _instants(self, low: int, high: int, *, reverse: bool) -> Iterator[datetime]:
        start = max(_EARLIEST, _ceil(self.start_at))
        low = max(low, start)
        if self.effective_from is not None:
            low = max(low, _ceil(self.effective_from))
        high = min(high, _LATEST)
        if self.end_at is not None:
            high = min(high, _ceil(self.end_at))
        if low < high:
            for second in self.rule.instants(self.zone, start, low, high, reverse=reverse):
                yield instant_of(second)


def require_meant(rule: Rule) -> None:
    """Invalid for a new rule with a part that means nothing."""
    if isinstance(rule, Cron):
        require_meaning(rule, field="rule.cron")


def require_due(recurrence: Recurrence, since: datetime) -> None:
    """Invalid for a new rule with a part that means nothing, or by which nothing is due from then
    on, because the end comes first."""
    require_meant(recurrence.rule)
    if next(recurrence.after(since), None) is None:
        message = _(
            "It would never be due: no time of its rule lies before its end. Choose a later "
            "end_at, or another rule."
        )
        raise Invalid.field("end_at", message)


class DueOccurrences(NamedTuple):
    """The due occurrences at one moment, oldest first, and when the next is due."""

    occurrences: list[datetime]
    next_at: datetime | None


def due_and_next(
    recurrence: Recurrence, now: datetime, *, misfire: str, misfire_limit: int
) -> DueOccurrences:
    """The due instants at `now`, and the first instant after it; none at all after the end.

    An occurrence is current until the next is due. With misfire `skip` it is the only one, with
    `once` the newest one before it is due as well, with `all` the newest `misfire_limit` ones.
    """
    if recurrence.has_ended(now):
        return DueOccurrences([], None)
    count = how_many_due(misfire, misfire_limit)
    newest_first = list(islice(recurrence.before(now), count))
    next_at = next((instant for instant in recurrence.after(now) if instant > now), None)
    return DueOccurrences(newest_first[::-1], next_at)


def how_many_due(misfire: str, misfire_limit: int) -> int:
    """How many occurrences can be due at once, the current one included; that one alone by a policy
    that only a newer release knows."""
    return 1 + {SKIP: 0, ONCE: 1, ALL: misfire_limit}.get(misfire, 0)


def occurrence_of(instant: datetime) -> int:
    """The identity of the occurrence that is due then: the second since 1970, UTC."""
    return _floor(instant)


def instant_of(occurrence: int) -> datetime:
    """When the occurrence of that identity is due."""
    return EPOCH + timedelta(seconds=occurrence)


def _floor(instant: datetime) -> int:
    return (instant - EPOCH) // _SECOND


def _ceil(instant: datetime) -> int:
    return -((EPOCH - instant) // _SECOND)


def parse_rule(wire: Any, *, field: str = "rule") -> Rule:
    """The rule of its wire form; Invalid names the part that is wrong.

    `{"every_minutes": 30}`, `{"every_days": 2, "at": "09:30"}` or `{"cron": "0 9 * * 1-5"}`.
    """
    kinds = {
        "every_minutes": ["every_minutes"],
        "every_days": ["every_days", "at"],
        "cron": ["cron"],
    }
    named = [kind for kind in kinds if isinstance(wire, Mapping) and kind in wire]
    if wire == {}:
        message = _("A rule is needed: every_minutes, every_days with at, or cron.")
        raise Invalid.field(field, message)
    if len(named) != 1:
        raise Invalid.field(
            field,
            _(
                "{this} names {kinds}; name exactly one: every_minutes, every_days with at, "
                "or cron.",
                this=f"{wire!r:.80}",
                kinds=_all_of(named) if named else _("no kind of rule"),
            ),
        )
    kind = named[0]
    for name in wire:
        if name not in kinds[kind]:
            raise Invalid.field(
                f"{field}.{name:.60}",
                _(
                    "A rule of {kind} has no {name}; it takes {takes} alone.",
                    kind=kind,
                    name=f"{name!r:.60}",
                    takes=_all_of(kinds[kind]),
                ),
                code="unknown_field",
            )
    if kind == "every_minutes":
        return EveryMinutes(_whole(wire[kind], MINUTES, field=f"{field}.{kind}"))
    if kind == "every_days":
        days = _whole(wire[kind], DAYS, field=f"{field}.{kind}")
        return EveryDays(days, _time(wire.get("at"), field=f"{field}.at"))
    return parse_cron(wire[kind], field=f"{field}.{kind}")


def _all_of(names: Sequence[str]) -> str:
    text, *rest = names
    for name in rest:
        text = _("{items} and {last}", items=text, last=name)
    return text


def stored_series(rule: Any, zone: str) -> tuple[Rule, ZoneInfo]:
    """The rule and the zone of a row."""
    try:
        return parse_rule(rule), parse_zone(zone)
    except Invalid as error:
        return Unreadable(error.detail), known_zone(zone)


@lru_cache(maxsize=10_000)
def read_series(written: str, zone: str) -> tuple[Rule, ZoneInfo]:
    """The rule of its stored JSON, and its zone; the same text is parsed once."""
    return stored_series(json.loads(written), zone)


def _whole(value: Any, bounds: tuple[int, int], *, field: str) -> int:
    low, high = bounds
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Invalid.field(
            field,
            _(
                "{this} is not a whole number from {low} to {high}.",
                this=f"{value!r:.60}",
                low=low,
                high=high,
            ),
        )
    return value


def _time(text: Any, *, field: str) -> time:
    if text is None:
        raise Invalid.field(
            field, _("The time of day is missing; write 00:00 to 23:59, or with seconds.")
        )
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise Invalid.field(
            field,
            _(
                "{this} is not a time of day; write 00:00 to 23:59, or with seconds.",
                this=f"{text!r:.60}",
            ),
        )
    return time.fromisoformat(text)


def clock(at: time) -> str:
    """`09:30`, or `09:30:15` when it has seconds."""
    return at.isoformat("seconds" if at.second else "minutes")
