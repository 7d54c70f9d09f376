"""The journal filter for the entries behind a figure of the reports."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.common.admin.filters import list_filters
from apps.common.filtersets import Choice, RowFilters
from apps.reports.rules.outcomes import COUNTS, ENDS, FINAL, RETRIED, RETRIES, TOTAL
from apps.reports.services.columns import FINALLY, WORDS


def _entries(counted: str) -> Q:
    """The entries with this outcome; for the total, with any."""
    outcomes = {TOTAL: COUNTS, FINALLY: FINAL}.get(counted, (counted,))
    found = [entry for entry, counts_as in ENDS.items() if counts_as in outcomes]
    if counted == RETRIED:
        found += RETRIES
    events: dict[tuple[str, str, str], list[str]] = {}
    for source, event, before, after in found:
        events.setdefault((source, before, after), []).append(event)
    wanted = Q()
    for (source, before, after), names in events.items():
        wanted |= Q(source=source, from_state=before, to_state=after, event__in=names)
    return wanted


def _counted_as(rows: Any, _name: str, counted: str) -> Any:
    return rows.filter(_entries(counted))


class CountedFilters(RowFilters):
    counted = Choice(WORDS.items(), label=_("counted as"), method=_counted_as)


[CountedAs] = list_filters(CountedFilters)
