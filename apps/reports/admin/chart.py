"""The data of the charts on a report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext

from apps.journal.services.minutes import second_of
from apps.reports.admin import links
from apps.reports.services.choice import Choice
from apps.reports.services.columns import COLUMNS, RATE, STACKED, TIMES, Row

# Further groups are only in the table.
MAX_BARS = 12


def through_time(choice: Choice, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    """Bars, rates, waits and runs by time.

    A bar links to the `entries` of [edge, next edge), in epoch seconds. Thousands of complete
    addresses would be most of the page.
    """
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
            if column in COLUMNS[choice.source]
        ],
    }


def by_group(choice: Choice, rows: Sequence[Row], titles: Mapping[str, str]) -> dict[str, Any]:
    """Bars for the first groups of the table, by their titles if they have any."""
    first = rows[:MAX_BARS]
    return {
        "names": [titles.get(row.figures.group) or row.figures.group for row in first],
        "series": _series(choice, first),
        "links": [
            links.between(
                links.entries_of(choice, (choice.by, row.figures.group)), row.since, row.until
            )
            for row in first
        ],
    }


def words() -> dict[str, str]:
    """The words inside the charts."""
    return {
        "rate": capfirst(str(RATE.title)),
        # The number comes in place of the mark.
        "ms": gettext("{count} ms"),
        "s": gettext("{count} s"),
        "min": gettext("{count} min"),
        "h": gettext("{count} h"),
        "d": gettext("{count} d"),
    }


def _series(choice: Choice, rows: Sequence[Row]) -> list[dict[str, Any]]:
    made = [
        {
            "name": capfirst(str(column.title)),
            "key": column.name,
            "values": [column.value(row.figures) for row in rows],
        }
        for column in STACKED[choice.source]
    ]
    # Empty series would only fill the legend.
    return [series for series in made if any(series["values"])]


def _rounded(row: Row) -> float | None:
    rate = row.figures.success_rate
    return None if rate is None else round(100 * rate, 2)
