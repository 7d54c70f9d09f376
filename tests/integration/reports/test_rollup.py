"""The sweep: what is stored is what the journal holds, whatever comes late, stops or dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.common.leases import load_position
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import first_id, second_of
from apps.reports.models import Rollup, RollupBucket
from apps.reports.rules.coverage import DAY, EIGHT_DAYS, FOUR_HOURS, HOUR, MINUTE, QUARTER
from apps.reports.services import entries, rollup, totals
from apps.reports.services.summary import Period, Summary, groupings, summarise
from apps.reports.sweeps import roll_up as sweep
from tests.environment import examples
from tests.frozen import FrozenClock
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import Naive, drawn, entry, stored, utc, write

NOW = utc("2026-03-30T12:34:56")
CLOSED = utc("2026-03-30T12:34:00")
ZONES = [
    "UTC",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Chatham",
]

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def last_hour(at: datetime) -> Summary:
    return summarise("job", "type", Period(at - timedelta(hours=1), at, ZoneInfo("UTC")))


def levels() -> dict[int, int]:
    found: dict[int, int] = {}
    for level in RollupBucket.objects.values_list("level", flat=True):
        found[level] = found.get(level, 0) + 1
    return found


# --- the figures --------------------------------------------------------------------------------
@pytest.fixture
def month(now: FrozenClock) -> Naive:
    """Entries of six weeks, in which clocks were changed, most of them of the last days."""
    write(
        *drawn(300, NOW - timedelta(days=45), NOW, seed=1),
        *drawn(300, NOW - timedelta(days=3), NOW, seed=2),
        *drawn(200, NOW - timedelta(hours=5), NOW, seed=3),
    )
    roll_up()
    return Naive()


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, str, Period, tuple[str, str] | None]:
    source = draw(st.sampled_from(["job", "dispatch"]))
    by = draw(st.sampled_from(groupings(source)))
    zone = ZoneInfo(draw(st.sampled_from(ZONES)))
    end = NOW - timedelta(seconds=draw(st.integers(-7200, 40 * 86_400)))
    length = draw(st.one_of(st.integers(60, 7200), st.integers(3600, 50 * 86_400)))
    length += max(0, round((end - NOW).total_seconds()) - length)
    only = None
    if by in ("hour", "day") and draw(st.booleans()):
        only = ("type", draw(st.sampled_from(["mail", "sms", "once:1", "none"])))
    return source, by, Period(end - timedelta(seconds=length), end, zone), only


@settings(
    max_examples=examples(90),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(question=questions())
def test_every_figure_is_what_raw_entries_add_up_to(month: Naive, question: Any) -> None:
    source, by, period, only = question
    found = summarise(source, by, period, only=only)
    end = max(period.start, min(period.end, CLOSED))
    for shown, asked in ((found.start, period.start), (found.as_of, end)):
        is_recent = asked > NOW - timedelta(days=2)
        assert timedelta() <= asked - shown < timedelta(minutes=1 if is_recent else 15)
    month.check(found, source, by, period, only=only)


def test_old_periods_use_coarser_buckets(month: Naive) -> None:
    """What is cut at minutes today is cut at hours when only those are left."""
    period = Period(NOW - timedelta(days=30, minutes=7), NOW - timedelta(days=20), ZoneInfo("UTC"))
    with override_settings(
        REPORT_MINUTES_KEPT=timedelta(hours=3),
        REPORT_QUARTERS_KEPT=timedelta(days=3),
        REPORT_HOURS_KEPT=timedelta(days=60),
    ):
        rollup.save_position(rollup.SWEEP, {})
        roll_up()
        found = summarise("job", "host", period)
        month.check(found, "job", "host", period)
        assert found.start == utc("2026-02-28T12:00:00")
        days = Period(period.start, period.end, ZoneInfo("Asia/Shanghai"))
        month.check(summarise("dispatch", "day", days), "dispatch", "day", days)


# --- the sweep ----------------------------------------------------------------------------------
def test_minute_is_added_up_soon_after_its_end(now: FrozenClock) -> None:
    write(entry(NOW))
    now.move_to(CLOSED + timedelta(seconds=64))
    sweep()
    assert last_hour(NOW + timedelta(hours=1)).as_of == CLOSED
    now.advance(seconds=1)
    sweep()
    found = last_hour(NOW + timedelta(minutes=30))
    assert (found.total.succeeded, found.as_of) == (1, CLOSED + timedelta(minutes=1))


def test_time_goes_on_while_nothing_happens(now: FrozenClock) -> None:
    roll_up()
    assert last_hour(NOW).as_of == CLOSED
    now.advance(minutes=5)
    roll_up()
    assert last_hour(NOW + timedelta(hours=1)).as_of == CLOSED + timedelta(minutes=5)
    assert Rollup.objects.count() == 0


def test_whole_buckets_come_with_their_last_part(now: FrozenClock) -> None:
    write(entry(NOW.replace(hour=0, minute=1)))
    roll_up()
    assert levels() == {MINUTE: 12 * 60 + 34, QUARTER: 4 * 12 + 2, HOUR: 12, FOUR_HOURS: 3}
    now.move_to(utc("2026-03-31T00:00:05"))
    roll_up()
    assert levels() == {MINUTE: 24 * 60, QUARTER: 96, HOUR: 24, FOUR_HOURS: 6, DAY: 1}
    assert set(Rollup.objects.values_list("level", "total").distinct()) == {
        (MINUTE, 1), (QUARTER, 1), (HOUR, 1), (FOUR_HOURS, 1), (DAY, 1),
    }  # fmt: skip


def test_eight_days_come_with_their_last_day(now: FrozenClock) -> None:
    """Counted from the epoch on: before 2026-03-24 there are 2,567 times eight."""
    first = utc("2026-03-24T00:00:00")
    now.move_to(first + timedelta(hours=1))
    roll_up()
    write(entry(first + timedelta(hours=2)), entry(first + timedelta(days=7, hours=23)))
    now.move_to(first + timedelta(days=8, seconds=4))
    roll_up()
    assert EIGHT_DAYS not in levels()
    now.advance(seconds=1)
    roll_up()
    assert levels()[EIGHT_DAYS] == 1
    rollups = Rollup.objects.filter(level=EIGHT_DAYS, dimension="type")
    assert list(rollups.values_list("start", "total")) == [(first.timestamp(), 2)]


def test_late_commit_is_included_at_all_levels(now: FrozenClock) -> None:
    """Its id lies in a day that was added up long before it committed."""
    midnight = utc("2026-03-31T00:00:00")
    write(entry(midnight - timedelta(minutes=7)))
    now.move_to(midnight + timedelta(seconds=5))
    sweep()
    write(
        entry(midnight - timedelta(minutes=7), type_or_task="late"),
        entry(midnight - timedelta(minutes=2), "dispatch", executor="uid_late"),
    )
    now.advance(minutes=1)
    sweep()
    day = Period(midnight - timedelta(days=1), midnight, ZoneInfo("UTC"))
    assert {row.group for row in summarise("job", "type", day).rows} == {"mail", "late"}
    for level in (MINUTE, QUARTER, HOUR, FOUR_HOURS, DAY):
        rollups = Rollup.objects.filter(level=level, dimension="all")
        assert sum(rollups.values_list("total", flat=True)) == 3
    Naive().check(summarise("dispatch", "executor", day), "dispatch", "executor", day)


def test_commit_from_just_before_a_pause_is_found_after_it(now: FrozenClock) -> None:
    sweep()
    write(entry(NOW - timedelta(minutes=5)))
    now.advance(hours=5)
    sweep()
    assert last_hour(NOW).total.total == 1


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5])
def test_blocks_end_anywhere(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between the first entry that a minute can have and the next one."""
    monkeypatch.setattr(entries, "BLOCK", block)
    start = second_of(CLOSED)
    minutes = [start, start + MINUTE, start + 2 * MINUTE]
    for number in (first_id(minute) + place for minute in minutes for place in (0, 1)):
        write(JournalEntry(id=number, at=NOW, source="job", subject_id=1, event="lost"))
    read = entries.read_back(
        start, start + 3 * MINUTE, lambda at: at // MINUTE * MINUTE, goes_on=lambda: True
    )
    assert {minute: cells.entries for minute, cells in read.cells.items()} == dict.fromkeys(
        minutes, 2
    )


class TestPause:
    """The sweep stands still for a day."""

    @pytest.fixture
    def paused(self, now: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrozenClock]:
        monkeypatch.setattr("apps.reports.services.entries.MAX_READ", 20)
        monkeypatch.setattr("apps.reports.services.entries.BLOCK", 7)
        write(*drawn(200, NOW - timedelta(hours=3), NOW, seed=4))
        roll_up()
        now.advance(days=1)
        write(*drawn(400, NOW, now(), seed=5))
        yield now

    def test_newest_is_added_first_and_the_rest_soon(self, paused: FrozenClock) -> None:
        end = paused() - timedelta(seconds=56)
        hour = Period(end - timedelta(minutes=30), end, ZoneInfo("UTC"))
        days = Period(end - timedelta(days=2), end, ZoneInfo("UTC"))
        rollup.roll_up(until=paused())
        gaps = load_position(rollup.SWEEP)["gaps"]
        assert len(gaps) == 1
        assert summarise("job", "type", days).as_of == CLOSED
        turns = 1
        while load_position(rollup.SWEEP)["gaps"]:
            rollup.roll_up(until=paused())
            turns += 1
        assert turns > 10
        naive = Naive()
        for period in (hour, days):
            found = summarise("job", "host", period)
            assert found.as_of == end
            naive.check(found, "job", "host", period)

    def test_what_goes_on_meanwhile_is_added_at_once(self, paused: FrozenClock) -> None:
        rollup.roll_up(until=paused())
        at = paused()
        paused.advance(minutes=2)
        write(entry(at + timedelta(minutes=1), type_or_task="fresh"))
        rollup.roll_up(until=paused())
        found = summarise("job", "type", Period(at, paused(), ZoneInfo("UTC")))
        assert [row.group for row in found.rows] == ["fresh"]
        assert len(load_position(rollup.SWEEP)["gaps"]) == 1


class Killed(BaseException):
    """As SIGKILL would be: nothing catches it."""


def test_killed_anywhere_it_leaves_neither_gap_nor_double(
    now: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before its nth statement that writes, for every n, and goes on each time."""
    monkeypatch.setattr("apps.reports.services.entries.MAX_READ", 10)
    write(*drawn(150, NOW - timedelta(hours=4), NOW, seed=6))
    roll_up()
    now.advance(hours=2)
    write(*drawn(150, NOW, now(), seed=7))
    write(entry(NOW - timedelta(minutes=5)))
    last = {"n": 0, "at": 1}

    def dying(original: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            last["n"] += 1
            if last["n"] == last["at"]:
                raise Killed
            return original(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        for module in (totals, rollup):
            for name in ("execute", "insert_values", "save_position"):
                if hasattr(module, name):
                    patch.setattr(module, name, dying(getattr(module, name)))
        deaths = 0
        while True:
            last["n"] = 0
            try:
                roll_up()
                break
            except Killed:
                deaths += 1
                last["at"] += 1
    assert deaths > 20
    naive = Naive()
    for by in ("type", "worker", "hour"):
        period = Period(NOW - timedelta(hours=6), now(), ZoneInfo("Asia/Kolkata"))
        found = summarise("job", by, period)
        assert found.as_of == now().replace(second=0)
        naive.check(found, "job", by, period)
    after_deaths = stored()
    list(rollup.rebuild(NOW - timedelta(days=1), now()))
    assert stored() == after_deaths


def test_rebuilt_totals_are_identical(month: Naive) -> None:
    before = stored()
    parts = list(rollup.rebuild(NOW - timedelta(days=50), NOW + timedelta(days=1)))
    assert stored() == before
    assert (parts[0].end, parts[-1].start) == (CLOSED, utc("2026-02-13T00:00:00"))
    Rollup.objects.filter(dimension="type").update(total=7)
    Rollup.objects.filter(dimension="host").delete()
    list(rollup.rebuild(NOW - timedelta(days=50), NOW))
    assert stored() == before


def test_rebuilding_includes_what_came_too_late(now: FrozenClock) -> None:
    roll_up()
    write(entry(NOW - timedelta(hours=2)))
    now.advance(minutes=1)
    roll_up()
    assert last_hour(NOW - timedelta(hours=1, minutes=30)).total.total == 0
    list(rollup.rebuild(NOW - timedelta(hours=2), NOW - timedelta(hours=1)))
    assert last_hour(NOW - timedelta(hours=1, minutes=30)).total.total == 1


def test_rebuilding_leaves_the_rest_to_the_sweep(now: FrozenClock) -> None:
    """It must not look as if minutes after a pause had been added up before it."""
    roll_up()
    now.advance(hours=3)
    write(entry(NOW + timedelta(hours=1)))
    list(rollup.rebuild(NOW + timedelta(hours=2), now()))
    roll_up()
    assert last_hour(NOW + timedelta(hours=1, minutes=30)).total.total == 1


def test_fine_buckets_are_removed_and_the_figures_stay(now: FrozenClock) -> None:
    write(*drawn(300, NOW - timedelta(days=2), NOW, seed=8))
    roll_up()
    naive = Naive()
    kept = {"REPORT_MINUTES_KEPT": timedelta(hours=3), "REPORT_QUARTERS_KEPT": timedelta(days=3)}
    with override_settings(**kept):
        for _ in range(3 * 24):
            now.advance(hours=1)
            roll_up()
        edge = now() - timedelta(hours=4, minutes=30)
        assert not Rollup.objects.filter(level=MINUTE, start__lt=edge.timestamp()).exists()
        assert Rollup.objects.filter(level=QUARTER).exists()
        assert not RollupBucket.objects.filter(
            level=MINUTE, start__lt=(now() - timedelta(hours=3, minutes=15)).timestamp()
        ).exists()
        period = Period(NOW - timedelta(days=2), now(), ZoneInfo("Asia/Kathmandu"))
        found = summarise("job", "type", period)
        naive.check(found, "job", "type", period)
        assert found.start == utc("2026-03-28T12:00:00")
