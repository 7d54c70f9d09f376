"""How long a failed job waits: delay × multiplier^(n-1), capped, plus or minus jitter."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """The retry policy of a type; times in seconds, jitter as a share (0.1 = ±10 %)."""

    delay: float
    multiplier: float
    cap: float
    jitter: float = 0.0


def backoff_seconds(policy: Backoff, attempt: int, *, chance: float = 0.5) -> float:
    """The wait after the attempt with this number, the first being 1.

    `chance` (0…1) places it within the jitter; 0.5 is the middle. Never negative, never above
    cap × (1 + jitter), and defined for any number.
    """
    plain = min(policy.cap, policy.delay * _power(policy.multiplier, max(0, attempt - 1)))
    return max(0.0, plain * (1 + policy.jitter * (2 * chance - 1)))


def asked_seconds(policy: Backoff, attempt: int, asked: float, *, chance: float = 0.5) -> float:
    """The wait when the other side has asked for one, in seconds: no shorter than by the policy, or
    a server that is gone for a minute would use up all attempts; no longer than its cap."""
    return min(max(asked, backoff_seconds(policy, attempt, chance=chance)), policy.cap)


def _power(multiplier: float, exponent: int) -> float:
    """multiplier^exponent, and what no float can hold as the greatest one."""
    if exponent == 0 or multiplier == 1:
        return 1.0
    try:
        # Beyond this exponent every power is 0, 1 or too large for a float, to any precision.
        return float(multiplier) ** min(exponent, 2**62)
    except OverflowError:
        return sys.float_info.max
