"""S4.2, S4.8, S4.19: the limits of types, which leave the others alone, and their breakers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import TypeState
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take
from tests.statements import is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_no_more_run_than_the_type_allows() -> None:
    """S4.8."""
    job_type(max_running=3)
    jobs(10)

    held = take()
    assert len(held) == 3
    assert take() == []
    end(held[0])
    assert len(take()) == 1


@pytest.mark.parametrize("limits", [{"max_running": 0}, {"rate_per_minute": 0}])
def test_limit_of_zero_lets_nothing_run(limits: dict[str, int]) -> None:
    """I59."""
    job_type(**limits)
    jobs(1)

    assert take() == []


def test_rate_spreads_the_holds_over_the_minute(frozen_clock: FrozenClock) -> None:
    job_type(rate_per_minute=60)
    jobs(100)

    assert len(take()) == 6
    assert take() == []
    frozen_clock.advance(seconds=3)
    assert len(take()) == 3


def test_limit_of_one_type_leaves_the_others_alone() -> None:
    job_type("mail", max_running=1)
    job_type("bill")
    jobs(5, "mail")
    jobs(5, "bill")

    held = take(10, types=("mail", "bill"))

    assert Counter(job.type for job in held) == {"mail": 1, "bill": 5}


@pytest.mark.parametrize("limits", [{"max_running": 0}, {"rate_per_minute": 0}])
def test_type_that_is_full_keeps_no_place_from_a_lighter_one(limits: dict[str, int]) -> None:
    """S4.2: whatever share of the slots it would have had."""
    job_type("mail", weight=1000, **limits)
    job_type("bill")
    jobs(5, "mail")
    jobs(5, "bill")

    assert [job.type for job in take(10, types=("mail", "bill"), rotation=1)] == 5 * ["bill"]


def test_however_many_types_are_full_the_one_with_a_place_is_found() -> None:
    """Also by a worker with one slot, whose looks find one type each."""
    names = [f"full-{n}" for n in range(12)]
    for name in names:
        job_type(name, max_running=0)
        jobs(1, name)
    job_type("bill")
    jobs(13, "bill")

    held = [take(1, types=(*names, "bill"), rotation=turn) for turn in range(13)]

    assert [[job.type for job in each] for each in held] == 13 * [["bill"]]


@pytest.mark.parametrize(
    "limits", [{"max_running": 0}, {"rate_per_minute": 0}, {"breaker_enabled": True}]
)
def test_type_that_is_full_is_read_once_and_nothing_is_written(limits: dict[str, Any]) -> None:
    """S4.2: on SQLite each commit wakes all drains that wait, and they would wake each other."""
    job_type(**limits)
    jobs(5)
    TypeState.objects.create(type="mail", breaker="open", breaker_since=clock.now())
    take()

    statements = sent_by(take)

    assert not [sql for sql in statements if sql.startswith(("UPDATE", "INSERT"))]
    assert len([sql for sql in statements if is_read(TypeState, sql)]) == 1


def test_open_breaker_stops_the_type_and_one_probe_closes_it(frozen_clock: FrozenClock) -> None:
    """S4.19, I50: a dependency that is down is asked at the rate of probes only."""
    job_type(breaker_enabled=True, breaker_min_calls=4, breaker_open_seconds=30, max_attempts=9)
    jobs(20)
    for held in take(4):
        end(held, "failed", retry="never")

    assert TypeState.objects.get(type="mail").breaker == "open"
    assert take() == []
    frozen_clock.advance(seconds=30)
    [probe] = take()
    assert take() == []
    end(probe)
    assert TypeState.objects.get(type="mail").breaker == "closed"
    assert len(take()) == 15


def test_bad_probe_opens_the_breaker_anew(frozen_clock: FrozenClock) -> None:
    job_type(breaker_enabled=True, breaker_min_calls=1, breaker_open_seconds=30)
    jobs(3)
    end(take(1)[0], "failed", retry="never")
    frozen_clock.advance(seconds=30)
    end(take()[0], "failed", retry="never")

    assert take() == []
    frozen_clock.advance(seconds=30)
    assert len(take()) == 1
