"""Shifts as operators write them: S0.32."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules.shift import parse_shift


@pytest.mark.parametrize(
    ("text", "shift"),
    [
        ("+2h", timedelta(hours=2)),
        ("-30m", timedelta(minutes=-30)),
        ("90s", timedelta(seconds=90)),
        ("+1d12h", timedelta(hours=36)),
        (" - 1 W ", timedelta(days=-7)),
        ("+366d", timedelta(days=366)),
        ("-1s", timedelta(seconds=-1)),
    ],
)
def test_shift_is_read(text: str, shift: timedelta) -> None:
    assert parse_shift(text) == shift


@pytest.mark.parametrize("text", ["", "2", "h", "+-2h", "2h+30m", "1.5h", "2 hours", "٢h", "+2h\0"])
def test_what_is_no_shift_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"is not a shift; write for example \+2h"):
        parse_shift(text)


@pytest.mark.parametrize("text", ["0s", "-0d0h", "366d1s", "-999999999w"])
def test_shift_of_nothing_or_of_years_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="shift by one second to 366 days"):
        parse_shift(text)
