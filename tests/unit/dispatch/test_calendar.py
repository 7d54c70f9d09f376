"""S0.11, I19 to I24: rotations against the clocks of every zone, from 1970 to 2037.

Each run draws its examples by its printed seed; the long ones go through all zones, all changes of
their offsets and 48 times of a day.
"""

from __future__ import annotations

import os
import time as real_time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.dispatch.rules.recurrence import (
    EveryDays,
    EveryMinutes,
    Recurrence,
    Rule,
    due_and_next,
    instant_of,
    occurrence_of,
    parse_rule,
)
from tests.walls import AROUND, DAY, HIGH, LOW, ZONES, Transition, Walls, transitions, wall

LONG_AGO = datetime(1960, 1, 1, tzinfo=UTC)
HALF_HOURS = range(0, 24 * 60, 30)
# Both ways of following the clock, at the times that clocks are changed.
EXPRESSIONS = ["*/30 * * * *", "15,45 0-3,23 * * *", "*/20 0-4 * * *", "7 */2 * * *", "30 2 * * *"]
SWEPT = [
    *(EveryDays(1, time(*divmod(minute, 60))) for minute in HALF_HOURS),
    *(parse_rule({"cron": expression}) for expression in EXPRESSIONS),
]
# Neighbours in the list have much in common.
SHARE = 20

_expected: dict[Transition, list[list[int]]] = {}


def recurrence(rule: Rule, zone: ZoneInfo, **limits: Any) -> Recurrence:
    return Recurrence(rule=rule, zone=zone, **{"start_at": LONG_AGO, **limits})


def due_in(plan: Recurrence, low: int, high: int) -> list[int]:
    """The due seconds in [low, high), searched forward and backward alike."""
    first, last = instant_of(low), instant_of(high - 1)
    forward = between(plan, first, last)
    backward = list(takewhile(lambda instant: instant >= first, plan.before(last)))
    assert forward == backward[::-1]
    return [occurrence_of(instant) for instant in forward]


def between(plan: Recurrence, first: datetime, last: datetime) -> list[datetime]:
    return list(takewhile(lambda instant: instant <= last, plan.after(first)))


# --- any zone, by search --------------------------------------------------------------------------
MINUTES = st.sampled_from(["*", "*/7", "*/15", "0", "5", "30", "15,45", "0-59/20", "59"])
HOURS = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1-3", "0-23", "22,23", "5-23/6"])
DAYS = st.sampled_from(["*", "*", "1", "15-31", "*/2", "L", "LW", "1-7,20"])
MONTHS = st.sampled_from(["*", "*", "3,4", "9-11", "12"])
WEEKDAYS = st.sampled_from(["*", "*", "MON-FRI", "0", "7", "SAT,SUN", "5L", "1#1", "*/3"])
CRON = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)
ZONE = st.sampled_from(ZONES).map(ZoneInfo)
INSTANT = st.integers(LOW, HIGH).map(instant_of)
RULE = st.one_of(
    st.builds(EveryMinutes, st.integers(1, 3000)),
    st.builds(EveryDays, st.integers(1, 40), st.times().map(lambda at: at.replace(microsecond=0))),
    CRON.map(lambda expression: parse_rule({"cron": expression})),
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[ZoneInfo, Transition]:
    """A zone, and a change of its offset between 1970 and 2037."""
    name = draw(st.sampled_from(ZONES))
    found = transitions(name)
    assume(found)
    return ZoneInfo(name), draw(st.sampled_from(found))


@st.composite
def plans(draw: st.DrawFn) -> Recurrence:
    """Any recurrence, with a microsecond here and there."""
    start = draw(INSTANT) + timedelta(microseconds=draw(st.sampled_from([0, 0, 1, 999_999])))
    lasting = st.timedeltas(timedelta(seconds=1), timedelta(days=4000))
    return Recurrence(
        rule=draw(RULE),
        zone=draw(ZONE),
        start_at=start,
        end_at=draw(st.none() | lasting.map(lambda length: start + length)),
        effective_from=draw(st.none() | lasting.map(lambda length: start + length)),
    )


@given(changes(), st.integers(0, 24 * 60 - 1), st.integers(1, 3))
def test_daily_comes_once_for_each_date_around_a_change(
    change: tuple[ZoneInfo, Transition], minute: int, days: int
) -> None:
    """I21: in a gap at the first valid moment after it, in a fold at the first pass."""
    zone, transition = change
    walls = Walls.around(zone, transition)
    low, high = walls.instants[0], walls.instants[-1] + 1
    start = instant_of(low - 40 * DAY)
    plan = recurrence(EveryDays(days, time(*divmod(minute, 60))), zone, start_at=start)

    first_date = wall(zone, low - 40 * DAY) // DAY
    wanted = [day for day in walls.dates if (day - first_date) % days == 0]
    assert due_in(plan, low, high) == walls.first_passes(d * DAY + minute * 60 for d in wanted)


@given(changes(), CRON)
def test_cron_around_a_change_is_what_the_clock_shows(
    change: tuple[ZoneInfo, Transition], expression: str
) -> None:
    """S0.11: named times once for each date, starred ones whenever the clock shows them."""
    zone, transition = change
    walls = Walls.around(zone, transition)
    plan = recurrence(parse_rule({"cron": expression}), zone)

    assert due_in(plan, walls.instants[0], walls.instants[-1] + 1) == walls.cron(expression)


@given(ZONE, INSTANT, CRON)
def test_cron_at_any_time_is_what_the_clock_shows(
    zone: ZoneInfo, instant: datetime, expression: str
) -> None:
    low = occurrence_of(instant) // 60 * 60
    walls = Walls(zone, low - AROUND, low + AROUND)
    assume(walls.shown[0] % 60 == 0)
    plan = recurrence(parse_rule({"cron": expression}), zone)

    expected = [second for second in walls.cron(expression) if abs(second - low) < DAY]
    assert due_in(plan, low - DAY + 1, low + DAY) == expected


@given(INSTANT, st.integers(1, 527_040), st.integers(0, 10**9), ZONE)
def test_interval_is_exact_from_its_start(
    start: datetime, minutes: int, later: int, zone: ZoneInfo
) -> None:
    """I20, S0.22: start + k · space, wherever the search begins, without drift."""
    plan = recurrence(EveryMinutes(minutes), zone, start_at=start)
    space = timedelta(minutes=minutes)
    moment = start + timedelta(seconds=later)

    found = list(islice(plan.after(moment), 3))

    steps, rest = divmod(moment - start, space)
    first = start + (steps + bool(rest)) * space
    assert found == [first, first + space, first + 2 * space]
    assert next(plan.before(moment)) == start + steps * space
    assert next(plan.after(LONG_AGO)) == start
    assert list(islice(plan.before(start), 2)) == [start]


@given(plans(), st.lists(INSTANT, min_size=2, max_size=4))
def test_every_search_finds_the_same_occurrences(plan: Recurrence, starts: list[datetime]) -> None:
    """I19, I23: ascending whole seconds within the limits, wherever the search starts."""
    least = max(plan.start_at, plan.effective_from or plan.start_at)
    for start in starts:
        following = list(islice(plan.after(start), 5))
        preceding = list(islice(plan.before(start), 5))
        row = [instant for instant in preceding[::-1] if instant != start] + following

        assert all(earlier < later for earlier, later in pairwise(row))
        assert all(instant == instant_of(occurrence_of(instant)) for instant in row)
        assert all(least <= instant for instant in row)
        assert all(plan.end_at is None or instant < plan.end_at for instant in row)
        assert all(instant >= start for instant in following) and all(i <= start for i in preceding)
        if row:
            assert between(plan, row[0], row[-1]) == row
            assert list(islice(plan.before(row[-1]), len(row))) == row[::-1]


@given(plans(), INSTANT, st.integers(1, 20))
def test_misfire_says_how_many_missed_ones_are_due(
    plan: Recurrence, now: datetime, limit: int
) -> None:
    """I22: never more than the cap, the newest of them, and whichever was skipped stays so."""
    counts = {"skip": 1, "once": 2, "all": 1 + limit}
    for misfire, count in counts.items():
        due, next_at = due_and_next(plan, now, misfire=misfire, misfire_limit=limit)

        if plan.end_at is not None and plan.end_at <= now:
            assert (due, next_at) == ([], None)
        else:
            assert due == list(islice(plan.before(now), count))[::-1]
            later = (instant for instant in plan.after(now) if instant != now)
            assert next_at == next(later, None)


@given(plans(), RULE, ZONE, INSTANT)
def test_edit_neither_brings_back_nor_moves_what_has_been(
    plan: Recurrence, rule: Rule, zone: ZoneInfo, edited: datetime
) -> None:
    """I23, I24: after an edit of the rule or the zone nothing before it exists, and what comes is
    what the new rule says by itself."""
    assume(plan.start_at < edited)
    changed = replace(plan, rule=rule, zone=zone, effective_from=edited)
    by_itself = replace(changed, effective_from=None)

    assert list(islice(changed.before(edited - timedelta(seconds=1)), 1)) == []
    assert list(islice(changed.after(LONG_AGO), 5)) == list(islice(by_itself.after(edited), 5))


@pytest.fixture
def host_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    real_time.tzset()
    yield
    monkeypatch.undo()
    real_time.tzset()


@pytest.mark.parametrize("wire", [{"every_days": 1, "at": "02:30"}, {"cron": "*/30 2 * * *"}])
def test_zone_of_the_host_changes_nothing(host_in_tokyo: None, wire: dict[str, Any]) -> None:
    """I24: the occurrence at 02:30 in New York is the same second on every machine."""
    assert os.environ["TZ"] == real_time.tzname[0].replace("JST", "Asia/Tokyo")
    plan = recurrence(parse_rule(wire), ZoneInfo("America/New_York"))
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)

    assert next(plan.before(noon)) == datetime(2026, 7, 1, 6, 30, tzinfo=UTC)
    assert occurrence_of(noon) == 1_782_907_200


# --- all zones, completely ------------------------------------------------------------------------
def zones_of(share: int) -> list[str]:
    return ZONES[share : share + SHARE]


def expected(zone: ZoneInfo, transition: Transition) -> list[list[int]]:
    """What each of SWEPT gives; many zones change their clocks together and are read once."""
    if transition not in _expected:
        walls = Walls.around(zone, transition)
        _expected[transition] = [walls.daily(minute) for minute in HALF_HOURS]
        _expected[transition] += [walls.cron(expression) for expression in EXPRESSIONS]
    return _expected[transition]


@pytest.mark.long
@pytest.mark.parametrize("share", range(0, len(ZONES), SHARE))
def test_every_change_of_every_zone_is_met_at_every_half_hour(share: int) -> None:
    """I21, S0.11: every zone and transition, 48 times of day and both kinds of cron, each
    forward and backward."""
    for name in zones_of(share):
        zone = ZoneInfo(name)
        plans = [recurrence(rule, zone) for rule in SWEPT]
        for transition in transitions(name):
            low, high = transition.at - AROUND, transition.at + AROUND
            for plan, wanted in zip(plans, expected(zone, transition), strict=True):
                assert due_in(plan, low, high) == wanted, (name, transition, plan.rule)


@pytest.mark.long
@pytest.mark.parametrize("share", range(0, len(ZONES), SHARE))
def test_every_date_of_every_zone_has_one_instant(share: int) -> None:
    """I21: from 1970 to 2037, but for the dates that a zone never had."""
    for position, name in enumerate(zones_of(share)):
        zone = ZoneInfo(name)
        at = time(*divmod(HALF_HOURS[(7 * position + share) % 48], 60))
        seconds = at.hour * 3600 + at.minute * 60
        skipped = sum(t.after - t.before == DAY for t in transitions(name))
        # Clear of both ends by the width of any offset.
        low, high = LOW + 2 * DAY, HIGH - 2 * DAY
        plan = recurrence(EveryDays(1, at), zone, start_at=instant_of(low))

        dates = set()
        for instant in between(plan, LONG_AGO, instant_of(high)):
            second = occurrence_of(instant)
            date = (wall(zone, second) - seconds) // DAY
            assert date not in dates, (name, instant)
            assert wall(zone, second - 1) < date * DAY + seconds, (name, instant)
            dates.add(date)

        first, last = min(dates), max(dates)
        assert len(dates) == last - first + 1 - skipped, name
        assert first <= low // DAY + 1 and last >= high // DAY - 2
