"""How long a failing job waits before each retry, as a curve and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.common.admin.display import duration_of
from apps.jobs.rules.backoff import Backoff, backoff_seconds

WIDTH, HEIGHT = 640, 220
# The edges of the curve; the numbers stand to the left of it and below.
LEFT, RIGHT, TOP, BOTTOM = 84, WIDTH - 16, 16, HEIGHT - 32
# More points than this would only be a line.
MAX_RETRIES = 20


class Wait(NamedTuple):
    """The wait after the attempt with this number, in words, and where its point lies."""

    attempt: int
    middle: str
    low: str
    high: str
    total: str
    x: float
    y: float


def backoff_picture(policy: Backoff, max_attempts: int) -> SafeString:
    """The waits between the attempts of a type, jitter as a band, the cap as a line."""
    attempts = range(1, min(max_attempts - 1, MAX_RETRIES) + 1)
    low, middle, high = (
        [backoff_seconds(policy, n, chance=chance) for n in attempts] for chance in (0, 0.5, 1)
    )
    top = max(high, default=0) or 1.0
    step = (RIGHT - LEFT) / max(1, len(attempts) - 1)
    first = LEFT if len(attempts) > 1 else (LEFT + RIGHT) / 2
    xs = [first + step * position for position in range(len(attempts))]

    def y(seconds: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * seconds / top

    def points(waits: Iterable[float]) -> list[str]:
        return [f"{x:.1f},{y(wait):.1f}" for x, wait in zip(xs, waits, strict=True)]

    columns = [map(_words, waits) for waits in (middle, low, high, accumulate(middle))]
    waits = [*map(Wait, attempts, *columns, xs, map(y, middle))]
    context = {
        "waits": waits,
        "more": max(0, max_attempts - 1 - MAX_RETRIES),
        "jitter": round(policy.jitter * 100),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "line": " ".join(points(middle)),
        "band": " ".join([*points(high), *reversed(points(low))]),
        "cap": y(policy.cap) if policy.cap <= top else None,
        "marks": [(y(top * share), _words(top * share)) for share in (0, 0.5, 1)],
        # At most ten numbers fit below.
        "ticks": waits[:: math.ceil(len(waits) / 10) or 1],
    }
    return render_to_string("admin/includes/backoff.html", context)


def _words(seconds: float) -> str:
    return duration_of(round(seconds * 1000))
