"""Pull: a user asks for work and gets one task, the same one until it is over."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError
from django.db.models import F

from apps.common import clock
from apps.common.errors import Unavailable
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services.ending import State
from apps.dispatch.services.expire import expire_if_due
from apps.dispatch.services.handout import hand_out
from apps.dispatch.services.queue import Ahead
from apps.dispatch.services.standing import Standing, standing_by_name, standing_of

MOST_RACES = 10
LONGEST_WAIT = 60
SEEN_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is due; ask again after so many whole seconds (1 to 60, jittered)."""

    retry_after: int


def answer_pull(uid: str, *, bound: Iterable[str] | None = None) -> Dispatch | Nothing:
    """What the user of that name gets: as `take_next`.

    Invalid for a group, NotFound when unknown or outside the names in `bound`.
    """
    return _serve(standing_by_name(uid, bound=bound))


def take_next(executor: Executor) -> Dispatch | Nothing:
    """The executor's open dispatch again (redo + 1), or the next due task as a new dispatch.

    A dispatch past its deadline is closed by its policy first. Losing a race is normal: the
    winner's dispatch is answered. Unavailable after ten lost races in a row.
    """
    return _serve(standing_of(executor.pk))


def _serve(standing: Standing) -> Dispatch | Nothing:
    _note_seen(standing)
    for _ in range(MOST_RACES):
        now = clock.now()
        if standing.open_number is None:
            ahead = Ahead(standing, now=now)
            taken = _take_first(standing, ahead, now)
            if taken is not None:
                return taken
            # Whatever was lost may have been lost to another pull of the same user.
            if not ahead.lost or standing_of(standing.pk).open_number is None:
                return Nothing(_retry_after(ahead.next_at, now))
        current = Dispatch.objects.select_related("executor").open_of(standing.pk)
        if current is not None and current.deadline_at <= now:
            expire_if_due(current, now=now)
        elif current is not None and _count_redo(current):
            return current
        standing = standing_of(standing.pk)
    raise Unavailable(f"{standing.name} pulls from too many places at once.", retry_after=1)


def _take_first(standing: Standing, ahead: Ahead, now: datetime) -> Dispatch | None:
    """The first opening that can still be had; None when there is none, or when another pull of
    the same user came first."""
    try:
        for candidate, has_stock in ahead.openings():
            if not has_stock:
                Stock.objects.ensure(*candidate.identity)
            taken = hand_out(standing, candidate, now)
            if taken is not None:
                return taken
            ahead.lost = True
    except IntegrityError:
        # The unique key of the one open dispatch; the caller looks at it next.
        ahead.lost = True
    finally:
        ahead.save_lessons()
    return None


def _note_seen(standing: Standing) -> None:
    now = clock.now()
    seen = standing.last_seen_at
    if seen is None or now - seen >= SEEN_EVERY:
        Executor.objects.filter(pk=standing.pk, last_seen_at=seen).update(last_seen_at=now)


def _count_redo(dispatch: Dispatch) -> bool:
    counted = Dispatch.objects.filter(pk=dispatch.pk, state=State.OPEN).update(redo=F("redo") + 1)
    dispatch.redo += 1
    return bool(counted)


def _retry_after(next_at: datetime | None, now: datetime) -> int:
    """Whole seconds until the next due instant, 1 to 60, spread so that clients do not herd."""
    wait = LONGEST_WAIT if next_at is None else (next_at - now).total_seconds()
    spread = wait + random.uniform(0, min(5.0, wait * 0.1))  # noqa: S311
    return min(LONGEST_WAIT, max(1, math.ceil(spread)))
