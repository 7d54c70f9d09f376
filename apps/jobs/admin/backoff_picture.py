"""How long a failing job waits before each retry, as a curve and as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.common.admin.display import duration_of
from apps.jobs.rules.backoff import Backoff, backoff_seconds, curve

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 16, 32
# More points than this would only be a line.
MAX_RETRIES = 20


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The wait after the attempt with this number, in words, and where its point lies."""

    attempt: int
    middle: str
    low: str
    high: str
    total: str
    x: float
    y: float


def words_of(seconds: float) -> str:
    return duration_of(round(seconds * 1000))


def backoff_picture(policy: Backoff, max_attempts: int) -> SafeString:
    """The waits between the attempts of a type, jitter as a band, the cap as a line."""
    retries = min(max_attempts - 1, MAX_RETRIES)
    context = {
        "waits": _waits(policy, retries) if retries > 0 else [],
        "more": max(0, max_attempts - 1 - MAX_RETRIES),
        "max_attempts": max_attempts,
        "jitter": round(policy.jitter * 100),
    }
    if retries > 0:
        context |= _drawn(policy, context["waits"])  # type: ignore[arg-type]
    return SafeString(render_to_string("admin/includes/backoff.html", context))


def _waits(policy: Backoff, retries: int) -> list[Wait]:
    middles = [wait.total_seconds() for wait in curve(policy, retries)]
    top = _top(policy, retries)
    totals = [*accumulate(middles)]
    return [
        Wait(
            attempt=position + 1,
            middle=words_of(middle),
            low=words_of(backoff_seconds(policy, position + 1, chance=0)),
            high=words_of(backoff_seconds(policy, position + 1, chance=1)),
            total=words_of(totals[position]),
            x=_x(position, retries),
            y=_y(middle, top),
        )
        for position, middle in enumerate(middles)
    ]


def _top(policy: Backoff, retries: int) -> float:
    """The value at the upper edge: the longest wait that can be drawn."""
    longest = max(backoff_seconds(policy, n, chance=1) for n in range(1, retries + 1))
    return longest or 1.0


def _x(position: int, retries: int) -> float:
    if retries == 1:
        return LEFT + (WIDTH - LEFT - RIGHT) / 2
    return LEFT + (WIDTH - LEFT - RIGHT) * position / (retries - 1)


def _y(seconds: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - seconds / top)


def _drawn(policy: Backoff, waits: list[Wait]) -> dict[str, object]:
    retries = len(waits)
    top = _top(policy, retries)

    def side(chance: float) -> list[str]:
        shown = (backoff_seconds(policy, n, chance=chance) for n in range(1, retries + 1))
        return [f"{_x(i, retries):.1f},{_y(wait, top):.1f}" for i, wait in enumerate(shown)]

    step = max(1, math.ceil(retries / 10))
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "bottom": HEIGHT - BOTTOM,
        "line": " ".join(f"{wait.x:.1f},{wait.y:.1f}" for wait in waits),
        "band": " ".join([*side(1), *reversed(side(0))]),
        "cap": _y(policy.cap, top) if policy.cap <= top else None,
        "marks": [(_y(top * share, top), words_of(top * share)) for share in (0, 0.5, 1)],
        "ticks": [wait for wait in waits if (wait.attempt - 1) % step == 0],
    }
