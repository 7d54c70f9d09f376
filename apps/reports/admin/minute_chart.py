"""The minutes of an hour as bars with axes, drawn without a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext

from apps.reports.admin.sparkline import HEIGHT, WIDTH, bars

_MINUTE = timedelta(minutes=1)
# Every so many minutes of the clock the axis names one.
_NAMED = 10


def minute_chart(
    counts: Sequence[int], failed: Sequence[int], until: datetime, words: str
) -> SafeString:
    """A bar for each minute before `until`, the failed part in another colour; `words` are its
    text, and a mouse over a minute shows its figures."""
    top = _round_above(max(counts, default=0))
    starts = [localtime(until - _MINUTE * place) for place in range(len(counts), 0, -1)]
    label, step = escape(words), WIDTH / max(1, len(counts))
    zones = "".join(
        [
            f'<rect x="{place * step:.1f}" width="{step:.1f}" height="{HEIGHT}"><title>'
            f"{escape(_figures(start, count, wrong))}</title></rect>"
            for place, (start, count, wrong) in enumerate(zip(starts, counts, failed, strict=True))
        ]
    )
    lines = "".join(
        [f'<line x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>' for y in (0, HEIGHT // 2, HEIGHT)]
    )
    return SafeString(
        '<div class="minute-chart"><div class="minute-scale" aria-hidden="true">'
        f"<span>{top:,}</span><span>{top // 2:,}</span><span>0</span></div>"
        f'<svg class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{label}">{lines}{bars(counts, failed, top)}{zones}</svg>'
        f'<div class="minute-times" aria-hidden="true">{"".join(_times(starts))}</div></div>'
    )


def _round_above(count: int) -> int:
    """The top of the scale, an even number: 2, 4, 10, 20, 40, 100 …"""
    top = 1
    while top < count or top < 2:
        top = top * 5 // 2 if str(top).startswith("4") else top * 2
    return top


def _figures(start: datetime, count: int, failed: int) -> str:
    return gettext("%(time)s: %(ended)s ended, %(failed)s failed") % {
        "time": f"{start:%H:%M}",
        "ended": f"{count:,}",
        "failed": f"{failed:,}",
    }


def _times(starts: Sequence[datetime]) -> Iterator[str]:
    for place, start in enumerate(starts):
        if start.minute % _NAMED == 0:
            share = 100 * place / len(starts)
            yield f'<span style="left:{share:.1f}%">{start:%H:%M}</span>'
