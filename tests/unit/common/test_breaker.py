"""Redis may vanish: three failures, then it is skipped for five seconds (I9, F12)."""

from __future__ import annotations

import pytest

from apps.common import cache
from apps.common.cache import Breaker, BreakerRedisCache, breaker_of


class Time:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr(cache, "time", fake)
    return fake


def test_opens_after_three_failures_in_a_row(time: Time) -> None:
    breaker = Breaker()
    for _ in range(2):
        breaker.failed(OSError())
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(OSError())
    assert breaker.allows()
    breaker.failed(OSError())
    assert not breaker.allows()


def test_lets_one_call_probe_after_five_seconds(time: Time) -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker.failed(OSError())
    time.now += 4.999
    assert not breaker.allows()
    time.now += 0.001
    assert breaker.allows()
    assert not breaker.allows()
    breaker.failed(OSError())
    time.now += 4
    assert not breaker.allows()
    time.now += 1
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.allows()


def test_absent_redis_is_an_empty_cache(time: Time) -> None:
    """Nothing listens on port 1: every call answers like an empty cache, also while skipped."""
    address = "redis://127.0.0.1:1/0"
    breaker_of.cache_clear()
    away = BreakerRedisCache(address, {"OPTIONS": {"SOCKET_CONNECT_TIMEOUT": 0.2}})
    for _ in range(2):
        assert away.get("a", 7) == 7
        assert away.get_many(["a"]) == {}
        assert away.set("a", 1) is False
        assert away.add("a", 1) is False
        assert away.touch("a") is False
        assert away.delete("a") is False
        assert away.has_key("a") is False
        with pytest.raises(ValueError, match="not found"):
            away.incr("a")
    assert not breaker_of(address).allows()
