"""S1.15, S4.8, I49: how many jobs are held at once."""

from __future__ import annotations

from typing import Any

import pytest

from apps.jobs.models import JobType
from apps.jobs.runner.process import FIRST_BATCH, MAX_BATCH, BatchSizes


def size_of(sizes: BatchSizes, **settings: Any) -> int:
    """The batch of the type mail with these settings."""
    snapshot = JobType(name="mail", **{"batch_limit": MAX_BATCH, **settings}).snapshot
    return sizes.sizes([snapshot])["mail"]


def size_after(seconds_each: float, rounds: int = 10, **settings: Any) -> int:
    sizes = BatchSizes()
    for _ in range(rounds):
        count = size_of(sizes, **settings)
        sizes.note("mail", count, count * seconds_each)
    return size_of(sizes, **settings)


def test_first_batch_is_small() -> None:
    types = [JobType(name=name).snapshot for name in ("mail", "film")]
    assert BatchSizes().sizes(types) == {"mail": FIRST_BATCH, "film": FIRST_BATCH}


def test_batch_comes_to_take_half_a_second(subtests: pytest.Subtests) -> None:
    cases = {0.0: MAX_BATCH, 0.0001: MAX_BATCH, 0.01: 50, 0.1: 5, 0.5: 1, 60.0: 1}
    for seconds_each, size in cases.items():
        with subtests.test(seconds_each=seconds_each):
            assert size_after(seconds_each) == pytest.approx(size, abs=1)


@pytest.mark.parametrize(("seconds_each", "size"), [(0.0001, MAX_BATCH), (0.01, 10), (0.2, 1)])
def test_batch_of_single_attempts_takes_a_tenth_of_a_second(seconds_each: float, size: int) -> None:
    """S1.10: if their machine is lost, all that were held have failed."""
    assert size_after(seconds_each, max_attempts=1) == pytest.approx(size, abs=1)


def test_limit_of_a_type_is_one_of_time(subtests: pytest.Subtests) -> None:
    """S4.8: nothing waits behind a long job; short ones may be more while none waits long."""
    for seconds_each, size in ((0.0, MAX_BATCH), (0.001, 50), (0.01, 5), (0.03, 2), (60.0, 1)):
        with subtests.test(seconds_each=seconds_each):
            first = size_of(BatchSizes(), batch_limit=2)
            assert first == 2
            assert size_after(seconds_each, batch_limit=2) == pytest.approx(size, abs=1)


def test_batch_that_was_not_filled_does_not_grow() -> None:
    sizes = BatchSizes()
    for _ in range(100):
        sizes.note("mail", 1, 0.0)
    assert size_of(sizes) == FIRST_BATCH


def test_type_that_becomes_slow_is_held_in_ones_soon() -> None:
    sizes = BatchSizes()
    for _ in range(5):
        sizes.note("mail", size_of(sizes), 0.0)
    for _ in range(3):
        sizes.note("mail", 1, 5.0)
    assert size_of(sizes) == 1
