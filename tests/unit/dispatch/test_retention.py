"""How long what is over is kept, and when it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.dispatch.rules import retention

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = 7 * DAY


def test_horizon_lies_behind_the_lookback(subtests: pytest.Subtests) -> None:
    """S0.8."""
    for kept, lookback, days_ago in (
        (400 * DAY, WEEK, 400),
        (8 * DAY, WEEK, 8),
        # Never within the lookback, whatever the setting says.
        (7 * DAY, WEEK, 8),
        (DAY, WEEK, 8),
        (DAY, 365 * DAY, 366),
    ):
        with subtests.test(kept=kept, lookback=lookback):
            found = retention.horizon(NOW, after=kept, lookback=lookback)
            assert found == NOW - days_ago * DAY


def test_task_is_kept_for_its_retention_in_both_tables_together() -> None:
    """S0.8."""
    found = retention.archived_before(NOW, retention=400 * DAY, archive_after=30 * DAY)
    assert found == NOW - 370 * DAY


def test_task_is_over(subtests: pytest.Subtests) -> None:
    """S0.8: days from now."""
    for source, deleted, changed, start, end, since in (
        # A task: its end, or for a once task the end of the lookback; an edit is later.
        ("once", False, -90, -90, -50, -50),
        ("once", False, -40, -90, -50, -40),
        ("once", False, -90, -90, None, -83),
        ("once", False, -90, -90, 50, 50),
        ("once", False, -90, 50, None, 57),
        ("rotate", False, -90, -90, -50, -50),
        ("rotate", False, -40, -90, -50, -40),
        ("rotate", False, -90, -90, None, None),
        # A deleted one: since then, or since it was over anyway.
        ("once", True, -10, -90, None, -83),
        ("once", True, -10, 50, None, -10),
        ("once", True, -10, -90, -50, -50),
        ("rotate", True, -10, -90, None, -10),
        ("rotate", True, -10, -90, -50, -50),
        ("rotate", True, -10, -90, 50, -10),
    ):
        with subtests.test(source=source, deleted=deleted, changed=changed, start=start, end=end):
            found = retention.over_since(
                source=source,
                is_deleted=deleted,
                changed_at=NOW + changed * DAY,
                start_at=NOW + start * DAY,
                end_at=None if end is None else NOW + end * DAY,
                lookback=WEEK,
            )
            assert found == (None if since is None else NOW + since * DAY)


def test_occurrence_is_settled(subtests: pytest.Subtests) -> None:
    """S0.8, I6: seconds from the horizon."""
    for source, due, stands, settled in (
        ("once", -900, True, False),
        ("once", -900, False, True),
        # The task cannot be had any more, whenever it was due.
        ("once", 5, False, True),
        ("rotate", -1, True, True),
        ("rotate", 0, True, False),
        ("rotate", -1, False, True),
        ("rotate", 0, False, False),
    ):
        with subtests.test(source=source, due=due, stands=stands):
            found = retention.is_settled(
                source, due_at=NOW + timedelta(seconds=due), is_task_kept=stands, before=NOW
            )
            assert found is settled
