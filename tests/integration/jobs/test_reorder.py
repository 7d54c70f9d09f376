"""S1.20, S4.6: a changed weight of priority reaches the jobs that wait already."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.leases import load_position
from apps.jobs.services.reorder import SWEEP, reorder
from tests.jobs import job_type, jobs, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def sweep() -> int:
    return reorder(until=clock.now() + timedelta(seconds=30))


def test_jobs_are_put_in_the_order_of_the_new_weight(settings: Any) -> None:
    job_type()
    assert sweep() == 0
    [old] = jobs(1, run_at=clock.now() - timedelta(minutes=10))
    [urgent] = jobs(1, priority=5)
    settings.JOB_PROMOTION_BATCH = 1
    settings.JOB_PRIORITY_WEIGHT_MS = 10**12

    assert sweep() == 1

    assert [held.id for held in take()] == [urgent, old]
    assert load_position(SWEEP) == {"weight": 10**12}


def test_running_and_ended_jobs_keep_their_place(settings: Any) -> None:
    job_type()
    sweep()
    [number] = jobs(1, priority=3, status="succeeded")
    before = row(number).order_key
    settings.JOB_PRIORITY_WEIGHT_MS = 0

    assert sweep() == 0
    assert row(number).order_key == before


def test_sweep_cut_short_goes_on_where_it_was(settings: Any) -> None:
    job_type()
    sweep()
    jobs(3, priority=1)
    settings.JOB_PRIORITY_WEIGHT_MS = 0
    settings.JOB_PROMOTION_BATCH = 2
    assert reorder(until=clock.now()) == 0

    assert sweep() == 3
    assert sweep() == 0
