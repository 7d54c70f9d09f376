"""How often something came in each step of a period: a small picture that needs no library."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 180, 28
_TOP = 2
# Of a step, between its bar and the next.
_GAP = 1 / 6


def sparkline(counts: Sequence[int], words: str, *, unlucky: Sequence[int] = ()) -> SafeString:
    """A bar for each count, what was unlucky of it in another colour, and the same in words."""
    most = max(counts, default=0)
    # A template takes ten times as long, and a page has a hundred of them.
    return format_html(
        '<svg class="sparkline" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'preserveAspectRatio="none" role="img" aria-label="{words}"><title>{words}</title>'
        '<line x1="0" x2="{width}" y1="{height}" y2="{height}"/>{all}{unlucky}</svg>',
        width=WIDTH,
        height=HEIGHT,
        words=words,
        all=_path("", _bars(counts, most)),
        unlucky=_path("unlucky", _bars(unlucky, most)),
    )


def _path(name: str, bars: str) -> SafeString:
    return format_html('<path class="{}" d="{}"/>', name, bars) if bars else SafeString()


def _bars(counts: Sequence[int], most: int) -> str:
    """One path of all bars; none is lower than a pixel, so that a single one is seen."""
    step = WIDTH / max(1, len(counts))
    bars = []
    for place, count in enumerate(counts):
        if count:
            high = max(1.0, count / most * (HEIGHT - _TOP))
            wide = step * (1 - _GAP)
            bars.append(f"M{place * step:.1f} {HEIGHT}v{-high:.1f}h{wide:.1f}v{high:.1f}z")
    return "".join(bars)
