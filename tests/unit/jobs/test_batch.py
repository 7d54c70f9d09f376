"""S1.15, S4.8, I49: how many jobs are held at once."""

from __future__ import annotations

import pytest

from apps.jobs.runner.process import FIRST_BATCH, MAX_BATCH, BatchSizes


def size_after(seconds_each: float, rounds: int = 10) -> int:
    sizes = BatchSizes()
    for _ in range(rounds):
        count = sizes.sizes(["mail"])["mail"]
        sizes.note("mail", count, count * seconds_each)
    return sizes.sizes(["mail"])["mail"]


def test_first_batch_is_small() -> None:
    assert BatchSizes().sizes(["mail", "film"]) == {"mail": FIRST_BATCH, "film": FIRST_BATCH}


@pytest.mark.parametrize(
    ("seconds_each", "size"),
    [(0.0, MAX_BATCH), (0.0001, MAX_BATCH), (0.01, 50), (0.1, 5), (0.5, 1), (60.0, 1)],
)
def test_batch_comes_to_take_half_a_second(seconds_each: float, size: int) -> None:
    assert size_after(seconds_each) == pytest.approx(size, abs=1)


def test_batch_grows_step_by_step() -> None:
    assert size_after(0.0, rounds=1) == FIRST_BATCH * 4


def test_batch_that_was_not_filled_does_not_grow() -> None:
    sizes = BatchSizes()
    for _ in range(100):
        sizes.note("mail", 1, 0.0)
    assert sizes.sizes(["mail"]) == {"mail": FIRST_BATCH}


def test_type_that_becomes_slow_is_held_in_ones_soon() -> None:
    sizes = BatchSizes()
    for _ in range(5):
        sizes.note("mail", sizes.sizes(["mail"])["mail"], 0.0)
    for _ in range(3):
        sizes.note("mail", 1, 5.0)
    assert sizes.sizes(["mail"]) == {"mail": 1}
