"""How often something came in each step of a period: a small picture that needs no library."""

from __future__ import annotations

from collections.abc import Sequence

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 180, 28
_TOP = 2
# Of a step, between its bar and the next.
_GAP = 1 / 6


def sparkline(counts: Sequence[int], words: str, *, unlucky: Sequence[int] = ()) -> SafeString:
    """A bar for each count, what was unlucky of it in another colour, and the same in words."""
    most = max(counts, default=0)
    context = {
        "width": WIDTH,
        "height": HEIGHT,
        "all": _bars(counts, most),
        "unlucky": _bars(unlucky, most),
        "words": words,
    }
    return SafeString(render_to_string("admin/includes/sparkline.html", context).strip())


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
