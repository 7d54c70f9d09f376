from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apps.reports.rules.coverage import (
    DAY,
    EIGHT_DAYS,
    FOUR_HOURS,
    HOUR,
    LEVELS,
    MINUTE,
    QUARTER,
    BucketRun,
    cut_at,
    snapped,
    spans,
    take,
    wanted,
)

START = 20_000 * DAY  # and of eight days


def every(level: int, start: int = START, days: int = 3) -> set[int]:
    return set(range(start, start + days * DAY, level))


ALL = {level: every(level) for level in LEVELS}


def cover(
    ranges: list[tuple[int, int]], stored: dict[int, set[int]]
) -> tuple[list[BucketRun], list[tuple[int, int]]]:
    runs: list[BucketRun] = []
    for level in reversed(LEVELS):
        taken, ranges = take(ranges, level, stored[level])
        runs += taken
    return sorted(runs, key=lambda run: run.start), ranges


def test_edges_take_ever_finer_buckets() -> None:
    period = (START + 10 * HOUR + 50 * MINUTE, START + 2 * DAY + HOUR + 16 * MINUTE)
    runs, left = cover([period], ALL)
    assert left == []
    levels = [MINUTE, HOUR, FOUR_HOURS, DAY, HOUR, QUARTER, MINUTE]
    assert [run.level for run in runs] == levels


def test_quarter_of_a_year_is_few_buckets() -> None:
    stored = {level: every(level, days=96) for level in LEVELS}
    runs, left = cover([(START + DAY + 7 * HOUR, START + 91 * DAY + 7 * HOUR)], stored)
    assert left == []
    assert {run.level: (run.end - run.start) // run.level for run in runs} == {
        HOUR: 3,
        FOUR_HOURS: 1,
        DAY: 3,
        EIGHT_DAYS: 10,
    }


def test_days_of_a_zone_eight_hours_off_are_six_buckets_each() -> None:
    midnight = START + 2 * DAY - 8 * HOUR
    runs, left = cover([(midnight - DAY, midnight), (midnight, midnight + DAY)], ALL)
    assert (runs, left) == ([BucketRun(FOUR_HOURS, midnight - DAY, midnight + DAY)], [])


@given(
    st.lists(st.integers(0, 2 * DAY // MINUTE), min_size=2, max_size=6, unique=True),
    st.sets(st.integers(0, 2 * 96 - 1), max_size=20),
)
def test_runs_and_what_is_left_are_the_ranges(minutes: list[int], missing: set[int]) -> None:
    """No second twice, none forgotten: what a missing quarter takes with it, minutes replace."""
    edges = [START + minute * MINUTE for minute in sorted(minutes)]
    ranges = list(pairwise(edges))
    holes = {START + quarter * QUARTER for quarter in missing}
    stored = {
        level: {s for s in ALL[level] if not any(s <= hole < s + level for hole in holes)}
        if level != MINUTE
        else {s for s in ALL[MINUTE] if (s // MINUTE) % 7}
        for level in LEVELS
    }
    runs, left = cover(ranges, stored)
    parts = sorted([(run.start, run.end) for run in runs] + left)
    assert parts[0][0] == edges[0] and parts[-1][1] == edges[-1]
    assert all(one[1] == two[0] for one, two in pairwise(parts))
    for run in runs:
        starts = range(run.start, run.end, run.level)
        assert set(starts) <= stored[run.level]
    assert not any(s in stored[MINUTE] for part in left for s in range(*part, MINUTE))


def test_spans_hold_whole_buckets_only_and_touch_nowhere() -> None:
    ranges = [
        (START + 1, START + HOUR - 1),
        (START + HOUR, START + 3 * HOUR),
        (START + 3 * HOUR, START + 4 * HOUR + 5),
        (START + 6 * HOUR, START + 7 * HOUR),
    ]
    apart = [(START + HOUR, START + 4 * HOUR), (START + 6 * HOUR, START + 7 * HOUR)]
    assert spans(ranges, HOUR, limit=2) == apart
    assert spans(ranges[:1], HOUR, limit=2) == []


def test_wanted_of_each_level_is_what_coarser_ones_leave() -> None:
    period = (START - 9 * HOUR - MINUTE, START + 9 * DAY + 31 * MINUTE)
    found = wanted([period], limit=6)
    assert found == {
        EIGHT_DAYS: [(START, START + 8 * DAY)],
        DAY: [(START + 8 * DAY, START + 9 * DAY)],
        FOUR_HOURS: [(START - 8 * HOUR, START)],
        HOUR: [(START - 9 * HOUR, START - 8 * HOUR)],
        QUARTER: [(START + 9 * DAY, START + 9 * DAY + 2 * QUARTER)],
        MINUTE: [
            (START - 9 * HOUR - MINUTE, START - 9 * HOUR),
            (START + 9 * DAY + 2 * QUARTER, START + 9 * DAY + 31 * MINUTE),
        ],
    }


def test_many_spans_are_one_from_the_first_to_the_last() -> None:
    ranges = [(START + 2 * n * HOUR, START + (2 * n + 1) * HOUR) for n in range(3)]
    assert spans(ranges, HOUR, limit=3) == ranges
    assert spans(ranges, HOUR, limit=2) == [(START, START + 5 * HOUR)]


def test_runs_are_cut_at_an_instant() -> None:
    runs = [BucketRun(MINUTE, START, START + 600), BucketRun(QUARTER, START + 900, START + 1800)]
    assert cut_at(runs, START + 300) == [BucketRun(MINUTE, START, START + 300)]


def test_boundaries_are_as_fine_as_what_is_kept() -> None:
    kept = {MINUTE: START + 2 * DAY, QUARTER: START + DAY, HOUR: START}
    odd = 7 * MINUTE + 13
    assert snapped(START + 2 * DAY + odd, kept) == START + 2 * DAY + 7 * MINUTE
    assert snapped(START + DAY + HOUR - 1, kept) == START + DAY + 3 * QUARTER
    assert snapped(START + HOUR + odd, kept) == START + HOUR
    assert snapped(START - HOUR + odd, kept) == START - HOUR + 7 * MINUTE
