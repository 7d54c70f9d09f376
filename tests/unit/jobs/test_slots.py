"""S4.7: how slots are shared between the lanes."""

from __future__ import annotations

import pytest

from apps.jobs.rules.slots import Group, lanes_polled, max_drains, wanted

BOTH = ("fast", "slow")


@pytest.mark.parametrize(
    ("lane", "lanes", "slots", "most"),
    [
        ("slow", BOTH, 4, 3),
        ("fast", BOTH, 4, 3),
        ("slow", BOTH, 2, 1),
        ("slow", BOTH, 1, 0),
        ("fast", BOTH, 1, 1),
        ("slow", ("slow",), 4, 4),
        ("fast", ("fast",), 1, 1),
        ("fast", ("slow",), 4, 0),
    ],
)
def test_lane_never_takes_all_places_of_a_worker_of_both(
    lane: str, lanes: tuple[str, ...], slots: int, most: int
) -> None:
    assert max_drains(lane, lanes, slots) == most


@pytest.mark.parametrize(
    ("lane", "lanes", "slots", "looks"),
    [
        ("fast", BOTH, 4, ("fast",)),
        ("slow", BOTH, 4, ("slow", "fast")),
        ("fast", BOTH, 1, ("fast", "slow")),
        ("slow", ("slow",), 4, ("slow",)),
    ],
)
def test_slow_drains_help_with_fast_jobs_and_not_the_other_way(
    lane: str, lanes: tuple[str, ...], slots: int, looks: tuple[str, ...]
) -> None:
    assert lanes_polled(lane, lanes, slots) == looks


@pytest.mark.parametrize(
    ("groups", "due", "starts"),
    [
        ([], {"fast"}, {"fast": 0, "slow": 0}),
        ([Group(BOTH, 4, {})], set(), {"fast": 1, "slow": 1}),
        ([Group(BOTH, 4, {"fast": 1, "slow": 1})], set(), {"fast": 0, "slow": 0}),
        ([Group(BOTH, 4, {"fast": 1, "slow": 1})], {"fast"}, {"fast": 2, "slow": 0}),
        ([Group(BOTH, 4, {"fast": 1, "slow": 1})], {"slow"}, {"fast": 0, "slow": 2}),
        ([Group(BOTH, 4, {})], {"fast", "slow"}, {"fast": 3, "slow": 1}),
        ([Group(BOTH, 4, {"slow": 3})], {"slow"}, {"fast": 1, "slow": 0}),
        ([Group(BOTH, 1, {})], {"slow"}, {"fast": 1, "slow": 0}),
        ([Group(BOTH, 2, {"fast": 1, "slow": 1})], {"fast", "slow"}, {"fast": 0, "slow": 0}),
        (
            [Group(("fast",), 2, {"fast": 1}), Group(("slow",), 2, {})],
            {"fast"},
            {"fast": 1, "slow": 1},
        ),
    ],
)
def test_drains_start_where_jobs_are_due_and_one_waits_otherwise(
    groups: list[Group], due: set[str], starts: dict[str, int]
) -> None:
    assert wanted(groups, due) == starts
