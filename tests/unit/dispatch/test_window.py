"""S0.15: everybody is served from the same window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.dispatch.rules.window import window

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
A_MOMENT = timedelta(microseconds=1)


def test_window_holds_neither_of_its_ends() -> None:
    """What is due at an instant can be had until the lookback later, and no longer."""
    frame = window(now=NOW, hours=6, lookback=timedelta(days=7))
    assert frame.lower not in frame
    assert frame.lower + A_MOMENT in frame
    assert frame.upper - A_MOMENT in frame
    assert frame.upper not in frame
