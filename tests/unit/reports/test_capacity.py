"""S1.17, S2.8: how much room tables come to take, and when the database is full."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from apps.reports.rules.capacity import NEVER, Load, days_until_full

GB = 10**9
JOURNAL = Load(
    rows=400_000_000, size=84 * GB, per_day=1_000_000.0, kept=timedelta(days=400), assumed_bytes=999
)


def test_row_has_the_bytes_that_were_measured_unless_there_are_few() -> None:
    assert JOURNAL.row_bytes == 210
    assert not JOURNAL.is_assumed
    few = replace(JOURNAL, rows=9_999)
    assert (few.row_bytes, few.is_assumed) == (999, True)
    unknown = replace(JOURNAL, size=None)
    assert (unknown.row_bytes, unknown.is_assumed) == (999, True)


def test_table_rests_when_as_many_rows_go_as_come() -> None:
    """The example of a million jobs a day: 84 GB of journal, 3.8 GB of live jobs."""
    assert JOURNAL.at_rest == 84 * GB
    assert not JOURNAL.grows
    live = Load(
        rows=0, size=0, per_day=1e6, kept=timedelta(days=7), assumed_bytes=544, standing=1_000
    )
    assert live.at_rest == (7_000_000 + 1_000) * 544
    assert live.grows


def test_table_that_is_kept_for_ever_or_of_unknown_growth() -> None:
    assert replace(JOURNAL, kept=None).at_rest is None
    assert replace(JOURNAL, per_day=None).at_rest == 84 * GB
    assert not replace(JOURNAL, per_day=None).grows


def test_days_until_the_database_is_full(subtests: pytest.Subtests) -> None:
    for size, max_size, days in (
        # 40 GB are to come, if the rounding of a row is left out.
        (50, 91, NEVER),
        (50, 89, 39 * GB / 210e6),
        (50, 50, 0.0),
        (50, 10, 0.0),
    ):
        with subtests.test(size=size, max_size=max_size):
            half = replace(JOURNAL, rows=400_000_000 * 11 // 21, size=44 * GB)
            resting = replace(JOURNAL, per_day=None)
            found = days_until_full([half, resting], size=size * GB, max_size=max_size * GB)
            assert found == pytest.approx(days)


def test_what_is_kept_for_ever_fills_every_disk() -> None:
    for_ever = replace(JOURNAL, kept=None)
    found = days_until_full([for_ever], size=84 * GB, max_size=105 * GB)
    assert found == pytest.approx(100)
    idle = replace(for_ever, per_day=0.0)
    assert days_until_full([idle], size=84 * GB, max_size=105 * GB) == NEVER
