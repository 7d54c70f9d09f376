"""What the script of the report page draws, as plain values with their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.reports.admin import links
from apps.reports.admin.choice import Choice
from apps.reports.admin.report import RATE, STACKED, TIMES, Stretch
from apps.reports.services.stretches import second_of

# More groups than that are told by the table alone.
MAX_BARS = 12


def through_time(choice: Choice, rows: Sequence[Stretch], names: Sequence[str]) -> dict[str, Any]:
    """Bars and rates by time, and the waits and runs. A bar leads to the `entries` of [edge, next
    edge), in epoch seconds: thousands of whole addresses would be most of the page."""
    edges = [row.since for row in rows] + [row.until for row in rows[-1:]]
    return {
        "names": list(names),
        "series": _series(choice, rows),
        "entries": links.entries_of(choice),
        "edges": [second_of(edge) for edge in edges],
        "rates": [_rounded(row) for row in rows],
        "times": [
            {
                "name": capfirst(str(column.title)),
                "key": column.name,
                "values": [column.value(row.figures) for row in rows],
            }
            for column in TIMES
        ],
    }


def by_group(choice: Choice, rows: Sequence[Stretch]) -> dict[str, Any]:
    """Bars of the first groups of the table."""
    first = rows[:MAX_BARS]
    return {
        "names": [row.figures.group for row in first],
        "series": _series(choice, first),
        "links": [
            links.between(
                links.entries_of(choice, (choice.by, row.figures.group)), row.since, row.until
            )
            for row in first
        ],
    }


def words() -> dict[str, str]:
    """What the charts say themselves."""
    return {
        "rate": capfirst(str(RATE.title)),
        # The number comes in place of the mark.
        "ms": gettext("%s ms"),
        "s": gettext("%s s"),
        "min": gettext("%s min"),
        "h": gettext("%s h"),
    }


def _series(choice: Choice, rows: Sequence[Stretch]) -> list[dict[str, Any]]:
    made = [
        {
            "name": capfirst(str(column.title)),
            "key": column.name,
            "values": [column.value(row.figures) for row in rows],
        }
        for column in STACKED[choice.source]
    ]
    # Those that are nowhere would only fill the legend.
    return [series for series in made if any(series["values"])]


def _rounded(row: Stretch) -> float | None:
    rate = row.figures.success_rate
    return None if rate is None else round(100 * rate, 2)
