"""Counts of each minute that no entry of the journal could give later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Max, Min

from apps.journal.services.minutes import instant_of, second_of
from apps.reports.models import StandingMinute
from apps.reports.rules.coverage import MINUTE, floor

KEPT = timedelta(days=7)


def note(now: datetime, **counts: int) -> None:
    """Keep the counts of this minute, once; older ones than KEPT go."""
    start = floor(second_of(now), MINUTE)
    _row, is_new = StandingMinute.objects.get_or_create(start=start, defaults=counts)
    if is_new:
        StandingMinute.objects.filter(start__lt=second_of(now - KEPT)).delete()


def is_noted(now: datetime) -> bool:
    """Whether this minute is kept already."""
    return StandingMinute.objects.filter(start=floor(second_of(now), MINUTE)).exists()


def counts_between(start: int, end: int) -> Mapping[int, tuple[int, int, int]]:
    """Jobs waiting, dispatches open and people silent, by the second at which the minute began."""
    rows = StandingMinute.objects.filter(start__gte=start, start__lt=end)
    found = rows.values_list("start", "waiting", "open", "silent")
    return {at: (waiting, open_, silent) for at, waiting, open_, silent in found}


def well_since() -> datetime | None:
    """The instant since which no minute has had a trouble; None while nothing is known."""
    last = StandingMinute.objects.filter(troubles__gt=0).aggregate(at=Max("start"))["at"]
    if last is not None:
        return instant_of(last + MINUTE)
    first = StandingMinute.objects.aggregate(at=Min("start"))["at"]
    return None if first is None else instant_of(first)
