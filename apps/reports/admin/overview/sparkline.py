"""A small picture of an hour, drawn here so that the page needs no library."""

from __future__ import annotations

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from apps.reports.services.lately import MINUTES, Course

WIDTH, HEIGHT = 180, 28
_TOP = 2
_STEP = WIDTH / MINUTES


def sparkline(course: Course) -> SafeString:
    """A bar for each minute, what failed of it in another colour, and the same in words."""
    most = max(course.ended)
    context = {
        "width": WIDTH,
        "height": HEIGHT,
        "ended": _bars(course.ended, most),
        "unlucky": _bars(course.unlucky, most),
        "words": _words(course, most),
    }
    return SafeString(render_to_string("admin/overview/sparkline.html", context).strip())


def _bars(counts: list[int], most: int) -> str:
    """One path of all bars; none is lower than a pixel, so that a single failure is seen."""
    bars = []
    for minute, count in enumerate(counts):
        if count:
            high = max(1.0, count / most * (HEIGHT - _TOP))
            bars.append(f"M{minute * _STEP:g} {HEIGHT}v{-high:.1f}h{_STEP - 0.5:g}v{high:.1f}z")
    return "".join(bars)


def _words(course: Course, most: int) -> str:
    if not most:
        return gettext("Nothing ended in the last hour.")
    return gettext(
        "%(ended)s ended in the last hour, %(most)s in the busiest minute and %(last)s in the "
        "newest; %(unlucky)s failed."
    ) % {
        "ended": f"{course.total:,}",
        "most": f"{most:,}",
        "last": f"{course.ended[-1]:,}",
        "unlucky": f"{sum(course.unlucky):,}",
    }
