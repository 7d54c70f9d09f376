"""The people who hold work and are silent: how many, and which. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet

from apps.common import clock
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.models.dispatch import IS_OPEN, DispatchQuerySet
from apps.dispatch.rules.silence import is_silent

# Open dispatches that are looked at.
MAX_LOOKED_AT = 1_000
# People are counted up to this number.
MAX_PEOPLE = 5_000
# Executors that a statement names one by one.
MAX_NAMED = 1_000


@dataclass(frozen=True)
class PeopleCount:
    """How many rows; not `is_whole` where more than MAX_LOOKED_AT were there to look at."""

    count: int
    is_whole: bool


@dataclass(frozen=True)
class SilentPeople:
    """The people who are silent with work in hand."""

    silent: PeopleCount
    # When the first of them was last heard of, as of `at`; and the number of all people.
    silent_since: datetime | None
    at: datetime
    people: int


# The counts by the executors that a person is limited to.
cached: TTLCache[SilentPeople] = TTLCache(30.0)


def read_silent_people(bound: Iterable[str] | None = None) -> SilentPeople:
    """The counts for somebody who sees all executors or those in `bound`, up to 30 seconds old."""
    key = None if bound is None else frozenset(bound)
    return cached.get(key, lambda: _count(key, clock.now()))


def _count(bound: frozenset[str] | None, now: datetime) -> SilentPeople:
    dispatches = Dispatch.objects.all()
    if bound is not None:
        seen: Any = Executor.objects.within(bound).values("pk")
        first = [row["pk"] for row in seen[: MAX_NAMED + 1]]
        if len(first) <= MAX_NAMED:
            # As plain ids: the index that starts with the executor is used for nothing else.
            seen = first
        dispatches = dispatches.filter(executor__in=seen)
    silent, all_holders = _silences(dispatches, now)
    people = Executor.objects.users() if bound is None else Executor.objects.within(bound).users()
    return SilentPeople(
        silent=PeopleCount(len(silent), all_holders),
        silent_since=min((since for _pk, since in silent), default=None),
        at=now,
        people=people.order_by()[:MAX_PEOPLE].count(),
    )


def silent_holders(
    dispatches: DispatchQuerySet, *, now: datetime | None = None
) -> tuple[list[int], bool]:
    """The users who hold one of these dispatches and are silent (rules.silence), of the first
    MAX_LOOKED_AT; and whether these were all."""
    found, are_all = _silences(dispatches, clock.now() if now is None else now)
    return [pk for pk, _since in found], are_all


def _silences(
    dispatches: DispatchQuerySet, now: datetime
) -> tuple[list[tuple[int, datetime]], bool]:
    """The silent users, each with the time of its latest sign of life, and whether all were looked
    at."""
    held: QuerySet[Any] = dispatches.filter(IS_OPEN).order_by("open_for")
    columns = ("open_for", "dispatched_at", "deadline_at")
    rows = list(
        held.annotate(seen_at=F("executor__last_seen_at")).values_list(*columns, "seen_at")[
            : MAX_LOOKED_AT + 1
        ]
    )
    silent = [
        (pk, max(began, seen or began))
        for pk, began, deadline, seen in rows[:MAX_LOOKED_AT]
        if is_silent(seen_at=max(began, seen or began), deadline_at=deadline, now=now)
    ]
    return silent, len(rows) <= MAX_LOOKED_AT
