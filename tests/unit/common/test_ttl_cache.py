"""A cache whose values are some seconds old at most."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from apps.common import ttl_cache
from apps.common.ttl_cache import TTLCache


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, which stands still."""
    at = [0.0]
    monkeypatch.setattr(ttl_cache, "time", SimpleNamespace(monotonic=lambda: at[0]))
    return at


def test_a_value_is_made_anew_when_it_is_too_old(seconds: list[float]) -> None:
    made, values = count(), TTLCache[int](2.0)
    assert [values.get("a", lambda: next(made)) for _ in range(3)] == [0, 0, 0]
    seconds[0] = 1.9
    assert values.get("a", lambda: next(made)) == 0
    seconds[0] = 2.0
    assert values.get("a", lambda: next(made)) == 1
    values.forget()
    assert values.get("a", lambda: next(made)) == 2


def test_each_key_has_its_own_value_and_no_more_than_the_most_are_kept(
    seconds: list[float],
) -> None:
    made, values = count(), TTLCache[int](2.0, most=2)
    assert [values.get(key, lambda: next(made)) for key in "abab"] == [0, 1, 0, 1]
    assert values.get("c", lambda: next(made)) == 2
    assert values.get("a", lambda: next(made)) == 3


def test_what_takes_long_to_find_out_is_kept_longer(seconds: list[float]) -> None:
    def slow() -> int:
        seconds[0] += 3.0
        return next(made)

    made, values = count(), TTLCache[int](2.0, times_as_long=10)
    for at, expected in ((0.0, 0), (29.9, 0), (30.0, 1)):
        seconds[0] = at
        assert values.get("a", slow) == expected
