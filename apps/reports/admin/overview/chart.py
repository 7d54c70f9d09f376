"""The chart of the home page: the ends in each step, drawn without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import short_text
from apps.reports.admin.sparkline import round_above
from apps.reports.services.lately import STEPS, Window

WIDTH, HEIGHT = 900, 100
_GAP = 1 / 6
# So many steps apart the axis names one.
_NAMED = {1: 10, 24: 16, 168: 6}
_TITLES = {
    1: _("Ended each minute"),
    24: _("Ended each quarter of an hour"),
    168: _("Ended each four hours"),
}
_PERIODS = {1: _("1 h"), 24: _("24 h"), 168: _("7 d")}
HOURS = "hours"
# Percent of the window in which an alert is named on its right; the scale is on its left.
_EARLY = 30


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str | Promise
    words: str
    picture: SafeString
    has_jobs: bool
    has_dispatches: bool
    # Address, words and whether it is the one.
    periods: list[tuple[str, str | Promise, bool]]


def hours_of(text: str) -> int:
    """The hours of the chart that an address names; 1 for anything else."""
    return int(text) if text in {str(each) for each in STEPS} else 1


def chart(
    hours: int, jobs: Window | None, dispatches: Window | None, alert_at: datetime | None
) -> Chart | None:
    """The chart; None where there is nothing to draw for this person."""
    window = jobs or dispatches
    if window is None:
        return None
    return Chart(
        title=_TITLES[hours],
        words=_words(jobs, dispatches),
        picture=_drawn(hours, jobs, dispatches, alert_at),
        has_jobs=jobs is not None,
        has_dispatches=dispatches is not None,
        periods=[
            (f"{reverse('admin:index')}?{HOURS}={each}", words, each == hours)
            for each, words in _PERIODS.items()
        ],
    )


def _words(jobs: Window | None, dispatches: Window | None) -> str:
    parts = []
    if jobs is not None:
        parts.append(
            gettext("jobs ended: %(ended)s, failed for good: %(failed)s")
            % {"ended": f"{jobs.ended:,}", "failed": f"{jobs.failed:,}"}
        )
    if dispatches is not None:
        parts.append(gettext("dispatches ended: %s") % f"{dispatches.ended:,}")
    return " · ".join(parts)


def _drawn(
    hours: int, jobs: Window | None, dispatches: Window | None, alert_at: datetime | None
) -> SafeString:
    window = jobs or dispatches
    if window is None:
        return SafeString("")
    count = len(window.steps)
    bars = [each.ended for each in jobs.steps] if jobs else [0] * count
    failed = [each.failed for each in jobs.steps] if jobs else [0] * count
    others = [each.ended for each in dispatches.steps] if dispatches else []
    top = round_above(max([*bars, *others], default=0))
    step, scale = WIDTH / count, HEIGHT / top
    begins = window.begins()
    good = [whole - bad for whole, bad in zip(bars, failed, strict=True)]
    lines = "".join(
        [f'<line x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>' for y in (0, HEIGHT // 2, HEIGHT)]
    )
    points = " ".join(
        [f"{(n + 0.5) * step:.1f},{HEIGHT - value * scale:.1f}" for n, value in enumerate(others)]
    )
    curve = f'<polyline class="dispatches" points="{points}"/>' if others else ""
    zones = "".join(
        [
            f'<rect x="{n * step:.1f}" width="{step:.1f}" height="{HEIGHT}"><title>'
            f"{escape(_figures(at, bars[n], failed[n]))}</title></rect>"
            for n, at in enumerate(begins)
        ]
    )
    share = _share(window, alert_at)
    mark = ""
    if share is not None and alert_at is not None:
        mark = format_html(
            '<span class="chart-mark{}" style="left:{}%"><span>{}</span></span>',
            " chart-mark-early" if share < _EARLY else "",
            f"{share:.1f}",
            gettext("%s alert") % short_text(alert_at),
        )
    label = escape(_words(jobs, dispatches))
    return SafeString(
        '<div class="home-chart"><div class="chart-scale" aria-hidden="true">'
        f"<span>{top:,}</span><span>{top // 2:,}</span><span>0</span></div>"
        f'<div class="chart-room"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{label}">{lines}{_path("", good, [0] * count, step, scale)}'
        f"{_path('failed', failed, good, step, scale)}{curve}{zones}</svg>{mark}</div>"
        f'<div class="chart-times" aria-hidden="true">{_times(hours, begins)}</div></div>'
    )


def _path(name: str, counts: Sequence[int], below: Sequence[int], step: float, scale: float) -> str:
    """One path with all bars, each at least a pixel high, on what is below it."""
    wide = step * (1 - _GAP)
    drawn = "".join(
        [
            f"M{n * step:.1f} {HEIGHT - base * scale:.1f}v-{max(1.0, count * scale):.1f}"
            f"h{wide:.1f}v{max(1.0, count * scale):.1f}z"
            for n, (count, base) in enumerate(zip(counts, below, strict=True))
            if count
        ]
    )
    return f'<path class="{name}" d="{drawn}"/>' if drawn else ""


def _share(window: Window, at: datetime | None) -> float | None:
    """Where the instant is on the axis, in percent; None outside of it."""
    if at is None:
        return None
    whole = window.step * len(window.steps)
    share = 100 * (at.timestamp() - window.start) / whole
    return share if 0 <= share <= 100 else None


def _figures(start: datetime, count: int, failed: int) -> str:
    return gettext("%(time)s: %(ended)s ended, %(failed)s failed") % {
        "time": short_text(start),
        "ended": f"{count:,}",
        "failed": f"{failed:,}",
    }


def _times(hours: int, begins: Sequence[datetime]) -> str:
    each = _NAMED[hours]
    named = []
    for place in range(0, len(begins), each):
        share, local = 100 * place / len(begins), localtime(begins[place])
        text = f"{local:%H:%M}" if hours < 168 else short_text(begins[place])
        named.append(f'<span style="left:{share:.1f}%">{escape(text)}</span>')
    return "".join(named)
