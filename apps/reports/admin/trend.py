"""How often something came in each step of a period: a small picture, made here."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 120, 28
_GAP = 0.15


def trend(counts: Sequence[int], words: str) -> SafeString:
    """A bar for each count, and in words what it shows. The least that is not nothing is seen."""
    most = max(counts, default=0)
    step = WIDTH / max(1, len(counts))
    bars = []
    for place, count in enumerate(counts):
        if count:
            height = max(2.0, HEIGHT * count / most)
            left, wide = place * step, step * (1 - _GAP)
            bars.append(f"M{left:.1f} {HEIGHT}v-{height:.1f}h{wide:.1f}v{height:.1f}z")
    return format_html(
        '<svg class="trend" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
        '<path class="trend-ground" d="M0 {}h{}"/><path d="{}"/></svg>',
        WIDTH,
        HEIGHT,
        words,
        words,
        HEIGHT,
        WIDTH,
        "".join(bars),
    )
