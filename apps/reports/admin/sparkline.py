"""How often something came in each step of a period: a small picture that needs no library."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from django.utils.html import escape
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 180, 28
_TOP = 2
# Of a step, between its bar and the next.
_GAP = 1 / 6


def sparkline(counts: Sequence[int], words: str, *, unlucky: Sequence[int] = ()) -> SafeString:
    """A bar for each count, what was unlucky of it in another colour, and the same in words."""
    most = max(counts, default=0)
    told = escape(words)
    # A template takes ten times as long, and a page has a hundred of them.
    return SafeString(
        f'<svg class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{told}"><title>{told}</title>'
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f"{_path('', counts, most)}{_path('unlucky', unlucky, most)}</svg>"
    )


def _path(name: str, counts: Sequence[int], most: int) -> str:
    """One path of all bars; none is lower than a pixel, so that a single one is seen."""
    if not any(counts):
        return ""
    starts, wide = _places(len(counts))
    scale = (HEIGHT - _TOP) / most
    # Many counts are alike.
    high = {count: f"{max(1.0, count * scale):.1f}" for count in {*counts}}
    bars = "".join(
        [
            f"{start}{high[count]}{wide}{high[count]}z"
            for start, count in zip(starts, counts, strict=True)
            if count
        ]
    )
    return f'<path class="{name}" d="{bars}"/>'


@functools.cache
def _places(count: int) -> tuple[list[str], str]:
    """Where each of so many bars starts upwards, and what leads from its top downwards."""
    step = WIDTH / count
    starts = [f"M{place * step:.1f} {HEIGHT}v-" for place in range(count)]
    return starts, f"h{step * (1 - _GAP):.1f}v"
