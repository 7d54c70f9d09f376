"""S0.15: the window slides with the executor, and always reaches the present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.dispatch.rules.window import window

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)


def ago(**fields: float) -> datetime:
    return NOW - timedelta(**fields)


@pytest.mark.parametrize(
    ("latest_done", "lower"),
    [
        (None, ago(days=7)),
        (ago(minutes=1), ago(hours=6)),
        (ago(hours=6), ago(hours=6)),
        (ago(hours=20), ago(hours=20)),
        (ago(days=7), ago(days=7)),
        (ago(days=70), ago(days=7)),
        (NOW + timedelta(hours=1), ago(hours=6)),
    ],
)
def test_lower_end_follows_the_latest_done_within_bounds(
    latest_done: datetime | None, lower: datetime
) -> None:
    frame = window(now=NOW, latest_done=latest_done, hours=6, lookback=timedelta(days=7))
    assert frame.lower == lower
    assert frame.upper == NOW + timedelta(hours=6)


def test_lookback_shorter_than_the_hours_wins() -> None:
    frame = window(now=NOW, latest_done=NOW, hours=6, lookback=timedelta(hours=1))
    assert frame.lower == ago(hours=1)


def test_window_holds_its_lower_but_not_its_upper_end() -> None:
    frame = window(now=NOW, latest_done=NOW, hours=6, lookback=timedelta(days=7))
    assert frame.lower in frame
    assert frame.lower - timedelta(microseconds=1) not in frame
    assert frame.upper - timedelta(microseconds=1) in frame
    assert frame.upper not in frame
