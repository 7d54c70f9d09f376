"""Totals of a version that had fewer levels: the sweep sums up the new ones, figures stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.common import clock, invariants
from apps.common.invariants import audit
from apps.common.leases import load_position, save_position
from apps.reports.models import Rollup, Stretch
from apps.reports.rules.cover import DAY, EIGHT_DAYS, FOUR_HOURS, HOUR
from apps.reports.services import rollup, totals
from apps.reports.services.figures import Period
from apps.reports.services.invariants import CHECKS
from apps.reports.services.summary import summarise
from tests.frozen import FrozenClock
from tests.integration.reports.history import Naive, drawn, stored, utc, write

pytestmark = pytest.mark.django_db
NOW = utc("2026-03-30T12:34:56")


@pytest.fixture
def whole(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All that should be stored; what is stored lacks the levels that came later."""
    monkeypatch.setattr(invariants, "AGAIN_AFTER_SECONDS", 0.0)
    frozen_clock.move_to(NOW)
    write(
        *drawn(200, NOW - timedelta(days=30), NOW, seed=1),
        *drawn(100, NOW - timedelta(hours=20), NOW, seed=2),
    )
    roll_up()
    everything = stored()
    for model in (Rollup, Stretch):
        gone, _ = model.objects.filter(level__in=(FOUR_HOURS, EIGHT_DAYS)).delete()
        assert gone
    position = load_position(rollup.SWEEP)
    del position["levels"]
    save_position(rollup.SWEEP, position)
    return everything


def roll_up(*, for_: timedelta = timedelta(minutes=1)) -> None:
    rollup.roll_up(until=clock.now() + for_)


def breaches() -> list[str]:
    return [str(breach) for done in audit(CHECKS) for breach in done.breaches]


def check(by: str = "type", zone: str = "UTC") -> None:
    period = Period(NOW - timedelta(days=25), NOW, ZoneInfo(zone))
    Naive().check(summarise("job", by, period), "job", by, period)


def test_sweep_sums_up_what_an_older_version_stored(whole: list[Any]) -> None:
    check()
    assert breaches() == []
    roll_up()
    assert stored() == whole
    assert breaches() == []
    check()
    check("day", "Asia/Kathmandu")


def test_a_little_in_every_turn_the_newest_first(
    whole: list[Any], frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step takes as long as a turn may."""
    done: list[tuple[int, int]] = []
    original = totals.sum_up

    def slow(level: int, start: int) -> None:
        original(level, start)
        done.append((level, start))
        frozen_clock.advance(milliseconds=10)

    monkeypatch.setattr(totals, "sum_up", slow)
    steps = set()
    while stored() != whole:
        before = len(done)
        roll_up(for_=timedelta(milliseconds=10))
        steps.add(len(done) - before)
        assert breaches() == []
        if len(done) in (1, 100, 183):
            check()
            check("day", "Asia/Shanghai")
    assert steps == {1}
    assert done == sorted(done, key=lambda each: (each[0], -each[1]))
    assert {level for level, _start in done} == {FOUR_HOURS, EIGHT_DAYS}


def test_killed_on_the_way_it_goes_on(whole: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    original, left = totals.insert_values, [0]

    def dying(*args: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return original(*args)

    deaths = 0
    with monkeypatch.context() as patch:
        patch.setattr(totals, "insert_values", dying)
        while "levels" not in load_position(rollup.SWEEP):
            left[0] = 31
            try:
                roll_up()
            except Killed:
                deaths += 1
    assert deaths > 5
    assert stored() == whole


def test_rebuilding_before_it_is_done_leaves_nothing_out(whole: list[Any]) -> None:
    newest = Stretch.objects.filter(level=DAY).order_by("-start")[0].start
    totals.sum_up(FOUR_HOURS, newest)
    Rollup.objects.filter(level=HOUR).update(total=99)
    list(rollup.rebuild(NOW - timedelta(days=40), NOW))
    roll_up()
    assert stored() == whole
