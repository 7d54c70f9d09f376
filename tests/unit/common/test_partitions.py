"""S2.8: which partitions a rolling table has, whatever comes and however late the sweep is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.partitions import (
    AHEAD,
    AHEAD_COUNT,
    MOST,
    ROWS,
    Partition,
    cuts,
    ended_before,
    width,
)

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def test_partition_holds_five_million_rows_unless_there_were_too_many(
    subtests: pytest.Subtests,
) -> None:
    for rows_a_day, retention, span in (
        (0, 400 * DAY, 31 * DAY),
        (1_000, 400 * DAY, 31 * DAY),
        (250_000, 400 * DAY, 20 * DAY),
        # No more than 32 of them, however much comes.
        (10_000_000, 400 * DAY, 13 * DAY),
        (10_000_000, 10 * DAY, 12 * HOUR),
        (10_000_000_000, DAY, HOUR),
        (1_000, 0 * DAY, 115 * DAY),
    ):
        with subtests.test(rows_a_day=rows_a_day, retention=retention):
            assert width(rows_a_day, retention) == span


def test_new_table_is_cut_ahead_from_now() -> None:
    assert cuts(NOW, [], 7 * DAY) == [
        datetime(2026, 3, 9, tzinfo=UTC),
        datetime(2026, 3, 16, tzinfo=UTC),
        datetime(2026, 3, 23, tzinfo=UTC),
    ]


def test_late_sweep_keeps_what_came_meanwhile_in_one_partition() -> None:
    old = datetime(2026, 1, 1, tzinfo=UTC)
    assert cuts(NOW, [old], 7 * DAY)[0] == datetime(2026, 3, 9, tzinfo=UTC)


def test_boundaries_of_days_are_at_midnight_after_those_of_hours() -> None:
    [first, *_] = cuts(NOW, [datetime(2026, 3, 2, 11, tzinfo=UTC)], 2 * DAY)
    assert first == datetime(2026, 3, 4, tzinfo=UTC)


@given(
    st.lists(st.integers(-400, 30 * 24), max_size=40, unique=True),
    st.floats(0, 1e10),
    st.integers(0, 4000),
)
def test_there_is_always_enough_ahead(hours: list[int], rate: float, kept: int) -> None:
    ends = [NOW + each * HOUR for each in sorted(hours)]
    span = width(rate, kept * DAY)
    found = cuts(NOW, ends, span)

    assert found == sorted(set(found))
    assert not ends or not found or found[0] > max(ends)
    ahead = [end for end in [*ends, *found] if end > NOW]
    assert len(ahead) >= AHEAD_COUNT[0]
    assert max(ahead) >= NOW + AHEAD or len(ahead) >= AHEAD_COUNT[1]
    assert cuts(NOW, [*ends, *found], span) == []


@given(st.floats(1, 1e10), st.integers(1, 4000))
def test_what_is_kept_is_in_few_partitions(rate: float, kept: int) -> None:
    retention = kept * DAY
    span = width(rate, retention)
    assert retention / span <= MOST
    assert span <= 31 * DAY or span <= retention / MOST + DAY
    if span > retention / MOST + DAY:
        assert rate * (span / DAY) <= ROWS * 1.01


def test_only_whole_partitions_are_over() -> None:
    names = [Partition("p1", NOW - DAY, 5), Partition("p2", NOW, 5), Partition("pmax", None, 0)]
    assert [each.name for each in ended_before(names, NOW - HOUR)] == ["p1"]
    assert [each.name for each in ended_before(names, NOW)] == ["p1", "p2"]
