"""When an executor with work in hand counts as silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.dispatch.rules.silence import is_silent

SEEN = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_silent_after_half_of_the_lease_and_ten_minutes_at_least(subtests: pytest.Subtests) -> None:
    for lease, silent_after in ((240, 120), (60, 30), (20, 10), (15, 10), (5, 10)):
        with subtests.test(lease=lease):
            deadline, limit = (SEEN + timedelta(minutes=each) for each in (lease, silent_after))
            assert is_silent(seen_at=SEEN, deadline_at=deadline, now=limit)
            just_before = limit - timedelta(microseconds=1)
            assert not is_silent(seen_at=SEEN, deadline_at=deadline, now=just_before)
