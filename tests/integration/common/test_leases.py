"""One process at a time for each sweep; the lease of a process that died ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common.leases import SweepRun, last_runs, sweep_lease
from apps.common.models import SweepLease
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

MINUTE = timedelta(minutes=1)


def test_second_comer_has_no_turn(frozen_clock: Any) -> None:
    """S4.9: one scanner at a time, with owner, end and fence."""
    with sweep_lease("expire", at_most=MINUTE) as first:
        with sweep_lease("expire", at_most=MINUTE) as second:
            assert (first, second) == (True, False)
        with sweep_lease("other", at_most=MINUTE) as third:
            assert third
    with sweep_lease("expire", at_most=MINUTE) as again:
        assert again


def test_dead_holder_loses_its_turn_when_the_time_is_over(frozen_clock: Any) -> None:
    dead = sweep_lease("expire", at_most=MINUTE)
    assert dead.__enter__()
    frozen_clock.advance(seconds=59.999)
    with sweep_lease("expire", at_most=MINUTE) as early:
        assert not early
    frozen_clock.advance(seconds=0.001)
    with sweep_lease("expire", at_most=MINUTE) as late:
        assert late
        # The dead one wakes up and must not end the turn of another.
        dead.__exit__(None, None, None)
        assert SweepLease.objects.get(name="expire").held_until is not None
    assert SweepLease.objects.get(name="expire").fence == 2


def test_turn_is_recorded(frozen_clock: Any) -> None:
    start = frozen_clock.instant
    with pytest.raises(RuntimeError), sweep_lease("expire", at_most=MINUTE):
        frozen_clock.advance(seconds=2)
        raise RuntimeError
    row = SweepLease.objects.get(name="expire")
    assert (row.started_at, row.finished_at, row.duration_ms, row.held_until) == (
        start,
        start + timedelta(seconds=2),
        2000,
        None,
    )


def test_turn_costs_two_statements() -> None:
    """Some sweeps have one each second, whatever there is to do."""

    def turn() -> None:
        with sweep_lease("expire", at_most=MINUTE) as mine:
            assert mine

    turn()
    assert len(sent_by(turn)) == 2


def test_sweep_is_overdue_once_its_period_has_passed_since_its_last_turn(frozen_clock: Any) -> None:
    """The time of a turn counts from its end, because beat keeps its own rhythm."""
    start = frozen_clock.instant
    with sweep_lease("expire", at_most=MINUTE):
        frozen_clock.advance(seconds=8)

    frozen_clock.advance(seconds=5)
    assert last_runs({"expire": 5}, frozen_clock.instant) == [
        SweepRun("expire", start, 8000, timedelta())
    ]
    frozen_clock.advance(seconds=3)
    [run] = last_runs({"expire": 5}, frozen_clock.instant)
    assert run.overdue == timedelta(seconds=3)


def test_sweep_under_way_is_not_overdue_until_its_holder_must_be_dead(frozen_clock: Any) -> None:
    dead = sweep_lease("expire", at_most=MINUTE)
    assert dead.__enter__()

    frozen_clock.advance(seconds=59)
    assert last_runs({"expire": 5}, frozen_clock.instant)[0].overdue == timedelta()
    frozen_clock.advance(seconds=1)
    assert last_runs({"expire": 5}, frozen_clock.instant)[0].overdue == timedelta(seconds=55)


def test_sweep_that_never_began_is_reported_as_such(frozen_clock: Any) -> None:
    assert last_runs({"expire": 5}, frozen_clock.instant) == [SweepRun("expire", None, None, None)]
