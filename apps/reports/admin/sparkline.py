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
