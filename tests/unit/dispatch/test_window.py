"""S0.15: everybody is served from the same window, which always reaches the present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.dispatch.rules.window import window

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
A_MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize("lookback", [timedelta(hours=1), timedelta(days=7)])
def test_window_reaches_from_the_lookback_to_some_hours_ahead(lookback: timedelta) -> None:
    frame = window(now=NOW, hours=6, lookback=lookback)
    assert (frame.lower, frame.upper) == (NOW - lookback, NOW + timedelta(hours=6))


def test_window_holds_neither_of_its_ends() -> None:
    """What is due at an instant can be had until the lookback later, and no longer."""
    frame = window(now=NOW, hours=6, lookback=timedelta(days=7))
    assert frame.lower not in frame
    assert frame.lower + A_MOMENT in frame
    assert frame.upper - A_MOMENT in frame
    assert frame.upper not in frame
