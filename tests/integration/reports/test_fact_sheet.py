"""The fact sheet that overview, metrics, health and alerts share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock, ids
from apps.dispatch.models import OnceTask
from apps.jobs.services import counts
from apps.reports.services import fact_sheet, last_minutes, rollup
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.services.last_minutes import Ends
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import end, ended, job_type, jobs, take
from tests.statements import sent_by

pytestmark = pytest.mark.django_db


def sheet() -> FactSheet:
    return fact_sheet.current_sheet()


@pytest.fixture(autouse=True)
def mail() -> None:
    job_type(max_attempts=1)


def test_whoever_asks_within_two_seconds_reads_the_same_sheet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fact_sheet.sheets, "seconds", 60.0)
    first = sheet()
    assert first.ready(100) == 0
    jobs(2)

    statements = sent_by(lambda: (sheet().ready(100), sheet().workers, sheet().workers))

    assert (sheet() is first, sheet().ready(100)) == (True, 0)
    # The jobs were counted before, the workers are read once.
    assert len(statements) == 1


def test_failures_count_before_and_after_they_are_added_up(frozen_clock: FrozenClock) -> None:
    ended("failed", 3)
    ended("succeeded", 1)
    assert sheet().ended_lately == {"mail": Ends(4, 3)}

    frozen_clock.advance(minutes=2)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    ended("failed", 2)

    assert sheet().ended_lately == {"mail": Ends(6, 5)}
    frozen_clock.advance(minutes=14)
    assert sheet().ended_lately == {"mail": Ends(2, 2)}


def test_cancelled_and_retried_jobs_are_no_failures(frozen_clock: FrozenClock) -> None:
    job_type("often", max_attempts=3)
    jobs(1, "often")
    [held] = take(types=["often"])
    end(held, "failed")

    assert sheet().ended_lately == {}


# --- what grows -----------------------------------------------------------------------------------
def test_type_grows_while_more_jobs_come_than_end(frozen_clock: FrozenClock) -> None:
    job_type("web")
    jobs(5)
    jobs(5, "web")
    for held in take(types=["web"]):
        end(held, "succeeded")
    assert sheet().growing == {"mail": 5}

    frozen_clock.advance(minutes=2)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    assert sheet().growing == {"mail": 5}
    for held in take(limit=3):
        end(held, "failed")
    assert sheet().growing == {"mail": 2}
    for held in take(limit=2):
        end(held, "succeeded")
    jobs(1)
    assert sheet().growing == {"mail": 1}
    [held] = take()
    end(held, "succeeded")
    # As many ended as came, and one of long ago is ready.
    jobs(1, id=ids.lowest_id_at(clock.now() - timedelta(hours=1)))
    assert sheet().growing == {}


def test_jobs_for_later_and_jobs_of_long_ago_do_not_grow(frozen_clock: FrozenClock) -> None:
    jobs(5)
    frozen_clock.advance(minutes=7)
    jobs(3, run_at=clock.now() + timedelta(hours=1))

    assert sheet().growing == {}


def test_newest_jobs_stand_for_more_than_are_read(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 jobs in each of three minutes and 10 ends: twice as many come as end."""
    monkeypatch.setattr(last_minutes, "MAX_SAMPLED", 30)
    for _each in range(3):
        jobs(20)
        for held in take(limit=10):
            end(held, "succeeded")
        frozen_clock.advance(minutes=1)
    rates = sheet().rates
    assert rates["mail"] == (15.0, 30 / 5)
    assert len(sent_by(lambda: sheet().growing)) <= 6


def test_ready_jobs_are_counted_once_more_where_those_of_a_type_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_type("web")
    monkeypatch.setattr(counts, "MAX_COUNTED", 3)
    jobs(2)
    few = sheet()
    assert few.ready_by_type == {"mail": 2, "web": 0}
    assert sent_by(lambda: few.ready(10)) == [] and few.ready(10) == 2
    assert few.ready(1) == 1

    jobs(5)
    jobs(1, "web")
    many = sheet()
    assert many.ready_by_type == {"mail": 3, "web": 1}
    assert sent_by(lambda: many.ready(4)) == [] and many.ready(4) == 4
    assert len(sent_by(lambda: many.ready(10))) == 1
    assert (many.ready(10), many.ready(7)) == (8, 7)


def test_quotas_that_end_within_two_hours(frozen_clock: FrozenClock) -> None:
    now, group = clock.now(), factories.group()

    def planned(end_in: int | None, **fields: Any) -> OnceTask:
        end_at = None if end_in is None else now + timedelta(minutes=end_in)
        times = {"start_at": now - timedelta(hours=1), "end_at": end_at, **fields}
        return factories.once_task(group, mode="multi", dispatch_times=4, **times)

    ending = planned(120)
    planned(121)
    planned(0)
    planned(30, start_at=now + timedelta(minutes=1))
    planned(30, status="paused")
    planned(None)

    found = sheet().quotas_ending

    assert found == [ending]
    assert [each.availability.left for each in found] == [4]
