"""Rate limits: counts of requests in fixed windows, shared through the cache.

While the cache is away nothing is counted or rejected: the key protects, the limit is for fairness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.core.cache import cache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.access.conf import conf
from apps.access.rules.clients import Client, Rate
from apps.common import clock

if TYPE_CHECKING:
    # The views module itself imports the default classes, this one among them.
    from rest_framework.views import APIView

MINUTE = 60
# How often an address may call the endpoints that are open to everybody in a minute.
OPEN_LIMIT = 60


def seconds_to_wait(name: str, rate: Rate) -> int | None:
    """Count one more under the name: None while it is within the rate, else the seconds left."""
    key, left = _window(name, rate)
    # A second longer than the window, so that a count never ends before what it counts.
    cache.add(key, 0, timeout=rate.seconds + 1)
    try:
        count: int = cache.incr(key)
    except ValueError:
        # The cache is away, or has dropped the key to make room.
        return None
    return None if count <= rate.limit else left


def seconds_left(name: str, rate: Rate) -> int | None:
    """The answer that `seconds_to_wait` would give, without counting a request."""
    key, left = _window(name, rate)
    return None if cache.get(key, 0) < rate.limit else left


def _window(name: str, rate: Rate) -> tuple[str, int]:
    """The key of the count of this moment, and the seconds until the next one begins."""
    window, passed = divmod(int(clock.now().timestamp()), rate.seconds)
    return f"access:{name}:{rate.seconds}:{window}", rate.seconds - passed


def seconds_to_wait_after_failure(address: str) -> int | None:
    """Count one more refused key of a remote address."""
    return seconds_to_wait(f"refused:{address}", Rate(conf.FAILED_KEY_LIMIT, MINUTE))


class ClientRateThrottle(BaseThrottle):
    """Holds a client to the rate of its key; a key without a rate is never throttled."""

    def __init__(self) -> None:
        self._wait: int | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        client = cast("Client | None", request.auth)
        if client is None or client.rate is None:
            return True
        self._wait = seconds_to_wait(f"rate:{client.client_id}", client.rate)
        return self._wait is None

    def wait(self) -> int | None:
        return self._wait


class AddressThrottle(ClientRateThrottle):
    """Holds each address to a rate, where no key is needed."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        address = request.META.get("REMOTE_ADDR", "")
        self._wait = seconds_to_wait(f"open:{address}", Rate(OPEN_LIMIT, MINUTE))
        return self._wait is None
