"""When steps are looked at whose messages were lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from apps.flows.rules.looks import next_look

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(("is_task", "longest"), [(False, 20), (True, 300)])
def test_lost_end_is_seen_within_a_tenth_of_the_time_that_the_step_has_taken(
    is_task: bool, longest: int
) -> None:
    at, looks = START, [START]
    while at < START + timedelta(hours=2):
        at = next_look(at, START, None, is_task=is_task)
        looks.append(at)
    for earlier, later in pairwise(looks):
        tenth = (earlier - START).total_seconds() / 10
        assert (later - earlier).total_seconds() == pytest.approx(min(longest, max(0.5, tenth)))
    deadline = START + timedelta(seconds=31)
    assert next_look(START + timedelta(seconds=30), START, deadline) == deadline
