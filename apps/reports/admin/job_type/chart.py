"""How many jobs succeeded and failed through time as bars, and how long they ran as lines over
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.utils.formats import date_format
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext

from apps.reports.admin.sparkline import HEIGHT, WIDTH, bars, round_above
from apps.reports.services.columns import duration
from apps.reports.services.summary import Figures, Summary

# How the steps of each period are named below, and how many of them at most.
_NAMES = {"1h": "H:i", "24h": "H:i", "7d": "D", "30d": "j.n."}
_MAX_NAMED = 7
# Room above the highest run time.
_HEAD = 1.1


def picture(summary: Summary, span: str) -> SafeString:
    """The steps of the summary, with a figure of each for a mouse over it."""
    steps = summary.rows
    ended = [each.succeeded + _failed(each) for each in steps]
    failed = [_failed(each) for each in steps]
    top, slowest = round_above(max(ended, default=0)), _slowest(steps)
    lines = "".join(
        [f'<line x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>' for y in (0, HEIGHT // 2, HEIGHT)]
    )
    runs = "".join(
        _run(name, [getattr(each.run, name) for each in steps], slowest) for name in ("p50", "p95")
    )
    return SafeString(
        '<div class="minute-chart run-chart"><div class="minute-scale" aria-hidden="true">'
        f"<span>{top:,}</span><span>{top // 2:,}</span><span>0</span></div>"
        f'<svg class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(words(summary.total))}">'
        f"{lines}{bars(ended, failed, top)}{runs}{_zones(steps, span)}</svg>"
        f'<div class="minute-scale run-scale" aria-hidden="true">{_scale(slowest)}</div>'
        f'<div class="minute-times" aria-hidden="true">{"".join(_times(steps, span))}</div></div>'
    )


def words(total: Figures) -> str:
    """Put the picture into words: the jobs that ended and failed, and their run times."""
    return gettext("%(ended)s ended, %(failed)s failed; run p50 %(p50)s, p95 %(p95)s") % {
        "ended": f"{total.succeeded + _failed(total):,}",
        "failed": f"{_failed(total):,}",
        "p50": duration(total.run.p50),
        "p95": duration(total.run.p95),
    }


def _failed(figures: Figures) -> int:
    return figures.failed + figures.timed_out + figures.expired


def _slowest(steps: Sequence[Figures]) -> int:
    """The milliseconds at the top of the right scale."""
    return round(max((each.run.p95 or 0 for each in steps), default=0) * _HEAD)


def _scale(slowest: int) -> str:
    marks = (duration(slowest), duration(slowest // 2), "0") if slowest else ("", "", "")
    return "".join(f"<span>{escape(mark)}</span>" for mark in marks)


def _run(name: str, values: Sequence[int | None], slowest: int) -> str:
    """A line through the middle of each step; it ends where nothing ran."""
    step = WIDTH / max(1, len(values))
    drawn, is_on = [], False
    for place, value in enumerate(values):
        if value is not None:
            x, y = (place + 0.5) * step, HEIGHT - HEIGHT * value / max(1, slowest)
            # A step alone is a dash.
            drawn.append(f"{'L' if is_on else 'M'}{x:.1f} {y:.1f}{'' if is_on else 'h2'}")
        is_on = value is not None
    return f'<path class="run-line run-{name}" d="{"".join(drawn)}"/>' if drawn else ""


def _zones(steps: Sequence[Figures], span: str) -> str:
    wide = WIDTH / max(1, len(steps))
    return "".join(
        f'<rect x="{place * wide:.1f}" width="{wide:.1f}" height="{HEIGHT}"><title>'
        f"{escape(f'{_named(each.start, span)} {words(each)}')}</title></rect>"
        for place, each in enumerate(steps)
    )


def _named(start: datetime | None, span: str) -> str:
    if start is None:
        return ""
    local = localtime(start)
    day = "" if span in ("1h", "24h") else date_format(local, "SHORT_DATE_FORMAT")
    return " ".join(filter(None, [day, "" if span == "30d" else f"{local:%H:%M}"]))


def _times(steps: Sequence[Figures], span: str) -> Iterator[str]:
    every = -(-len(steps) // _MAX_NAMED)
    for place in range(0, len(steps), every or 1):
        start = steps[place].start
        if start is not None:
            name = date_format(localtime(start), _NAMES[span])
            yield f'<span style="left:{100 * place / len(steps):.1f}%">{escape(name)}</span>'
