"""The journal filter for the entries behind a figure of the reports."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from apps.common.admin.filters import ChoiceFilter
from apps.reports.rules.outcomes import COUNTS, ENDS, FINAL, RETRIED, RETRIES, TOTAL
from apps.reports.services.columns import FINALLY, WORDS


class CountedAs(ChoiceFilter):
    title = _("counted as")
    parameter = "counted"
    options = list(WORDS.items())

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        counted = given[self.parameter]
        return rows.filter(_entries(counted)) if counted in WORDS else super().narrowed(rows, given)


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
