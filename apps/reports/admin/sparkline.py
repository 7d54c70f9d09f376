"""Sparklines: counts in steps of time as a small inline SVG."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from django.utils.html import escape
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 180, 28
_TOP = 2
# The share of a step between its bar and the next.
_GAP = 1 / 6


def sparkline(counts: Sequence[int], words: str, *, failed: Sequence[int] = ()) -> SafeString:
    """A bar for each count, the failed part in another colour, with `words` as its text."""
    label = escape(words)
    # A template takes ten times as long, and a page has a hundred of them.
    return SafeString(
        f'<svg class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{label}"><title>{label}</title>'
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f"{bars(counts, failed, max(counts, default=0), room=HEIGHT - _TOP)}</svg>"
    )


def bars(counts: Sequence[int], failed: Sequence[int], highest: int, *, room: int = HEIGHT) -> str:
    """The bars in a picture of WIDTH and HEIGHT, in which `highest` is as high as `room`."""
    return f"{_path('', counts, highest, room)}{_path('failed', failed, highest, room)}"


def line(values: Sequence[float | None]) -> SafeString:
    """A line through the values, filled below; what is not known is drawn as what came before, or
    first. It is only a picture of the figure above it, without a text."""
    last = next((value for value in values if value is not None), 0.0)
    drawn: list[float] = []
    for value in values:
        last = last if value is None else value
        drawn.append(last)
    if len(drawn) < 2:
        return SafeString("")
    low, high = min(drawn), max(drawn)
    # Values that hardly change are drawn as a straight line.
    low = min(low, high * 0.6)
    scale = (HEIGHT - 2 * _TOP) / ((high - low) or 1.0)
    step = WIDTH / (len(drawn) - 1)
    points = " ".join(
        [
            f"{place * step:.1f},{HEIGHT - _TOP - (value - low) * scale:.1f}"
            for place, value in enumerate(drawn)
        ]
    )
    return SafeString(
        f'<svg class="home-line" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><polygon points="0,{HEIGHT} {points} {WIDTH},{HEIGHT}"/>'
        f'<polyline points="{points}"/></svg>'
    )


def _path(name: str, counts: Sequence[int], highest: int, room: int) -> str:
    """One path with all bars, each at least a pixel high so that a single event is visible."""
    if not any(counts):
        return ""
    starts, wide = _places(len(counts))
    scale = room / highest
    # Many counts are equal.
    high = {count: f"{max(1.0, count * scale):.1f}" for count in {*counts}}
    drawn = "".join(
        [
            f"{start}{high[count]}{wide}{high[count]}z"
            for start, count in zip(starts, counts, strict=True)
            if count
        ]
    )
    return f'<path class="{name}" d="{drawn}"/>'


@functools.cache
def _places(count: int) -> tuple[list[str], str]:
    """The start of each bar, and the path from its top to the right and down."""
    step = WIDTH / count
    starts = [f"M{place * step:.1f} {HEIGHT}v-" for place in range(count)]
    return starts, f"h{step * (1 - _GAP):.1f}v"


def round_above(count: int) -> int:
    """The top of the scale, an even number: 2, 4, 10, 20, 40, 60, 90 …"""
    unit = 2
    while True:
        for top in (unit, unit * 2, unit * 3, unit * 4):
            if top >= count:
                return top
        unit *= 5 if str(unit).startswith("2") else 2
