"""Counts of each minute that no entry of the journal could give later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Max, Min, Q

from apps.common.ttl_cache import TTLCache
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


# One more minute is noted once a minute.
kept: TTLCache[Mapping[int, tuple[int, int, int]]] = TTLCache(15.0)


def counts_between(start: int, end: int) -> Mapping[int, tuple[int, int, int]]:
    """Jobs waiting, dispatches open and people silent, by the second at which the minute began."""
    return kept.get((start, end), lambda: _read(start, end))


def _read(start: int, end: int) -> Mapping[int, tuple[int, int, int]]:
    rows = StandingMinute.objects.filter(start__gte=start, start__lt=end)
    found = rows.values_list("start", "waiting", "open", "silent")
    return {at: (waiting, open_, silent) for at, waiting, open_, silent in found}


def well_since() -> datetime | None:
    """The instant since which no minute has had a trouble; None while nothing is known."""
    last = Max("start", filter=Q(troubles__gt=0))
    found = StandingMinute.objects.aggregate(last=last, first=Min("start"))
    if found["last"] is not None:
        return instant_of(found["last"] + MINUTE)
    return None if found["first"] is None else instant_of(found["first"])
