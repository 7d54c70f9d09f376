"""Pull: a user asks for work and gets one task, the same one until it is over."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError

from apps.common import clock
from apps.common.db import execute, table
from apps.common.errors import Unavailable
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services.ending import State
from apps.dispatch.services.expire import expire_if_due
from apps.dispatch.services.handout import hand_out
from apps.dispatch.services.queue import Ahead
from apps.dispatch.services.standing import (
    Standing,
    User,
    note_seen,
    quiet_until,
    standing_by_name,
    standing_of,
)

MAX_RACES = 10
LONGEST_WAIT = 60


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is due; ask again after so many whole seconds (1 to 60, jittered)."""

    retry_after: int


def answer_pull(uid: str, *, bound: Iterable[str] | None = None) -> Dispatch | Nothing:
    """What the user of that name gets: as `take_next`.

    Invalid for a group, NotFound when unknown or outside the names in `bound`.
    """
    now = clock.now()
    until = quiet_until(uid, now) if bound is None else None
    if until is not None:
        return Nothing(_retry_after(until, now))
    return _serve(standing_by_name(uid, bound=bound))


def take_next(executor: User) -> Dispatch | Nothing:
    """The executor's open dispatch again (redo + 1), or the next due task as a new dispatch.

    A dispatch past its deadline is closed by its policy first. Losing a race is normal: the
    winner's dispatch is answered. Unavailable after ten lost races in a row.
    """
    return answer_pull(executor.name)


def take_anew(executor: User) -> Dispatch | Nothing:
    """The same, whatever is remembered of the executor."""
    return _serve(standing_of(executor.pk))


def _serve(standing: Standing) -> Dispatch | Nothing:
    now = clock.now()
    standing = note_seen(standing, now)
    for _ in range(MAX_RACES):
        if standing.in_hand is None:
            answer = _take_first(standing, now)
        else:
            answer = _open_again(standing, now)
        if answer is not None:
            return answer
        standing, now = standing_of(standing.pk), clock.now()
    raise Unavailable(f"{standing.name} pulls from too many places at once.", retry_after=1)


def _take_first(standing: Standing, now: datetime) -> Dispatch | Nothing | None:
    """The first opening that can still be had; None when another pull of the same user came
    first."""
    ahead = Ahead(standing, now=now)
    taken = None
    try:
        for opening in ahead.openings():
            try:
                taken = hand_out(standing, opening, now)
            except IntegrityError:
                # The user has another dispatch, open or of this round; where a person has removed
                # the stock, a new row leads to it again.
                Stock.objects.ensure(*opening.candidate.identity)
                return None
            if taken is not None:
                return taken
    finally:
        ahead.save_lessons(taken)
    # What cannot be had, another pull of the same user may have taken, or an edit changed just now.
    if ahead.has_looked:
        present = standing_of(standing.pk)
        if present.in_hand is not None or present.versions != standing.versions:
            return None
    return nothing(ahead, now)


def nothing(ahead: Ahead, now: datetime) -> Nothing:
    """The answer when all openings have been looked at."""
    return Nothing(_retry_after(ahead.next_at, now))


def _open_again(standing: Standing, now: datetime) -> Dispatch | None:
    """The open dispatch, counted; None when it is over, by its deadline or meanwhile."""
    current = Dispatch.objects.read("d.open_for = %s", [standing.pk])
    if current is None:
        return None
    if current.deadline_at <= now:
        current.executor = Executor(pk=standing.pk, name=standing.name)
        expire_if_due(current, now=now)
        return None
    return current if _count_redo(current) else None


def _count_redo(dispatch: Dispatch) -> bool:
    dispatch.redo += 1
    return bool(
        execute(
            f"UPDATE {table(Dispatch)} SET redo = redo + 1 WHERE id = %s AND state = %s",
            [dispatch.pk, State.OPEN.value],
        )
    )


def _retry_after(next_at: datetime | None, now: datetime) -> int:
    """Whole seconds until the next due instant, 1 to 60, spread so that clients do not herd."""
    wait = LONGEST_WAIT if next_at is None else (next_at - now).total_seconds()
    spread = wait + random.uniform(0, min(5.0, wait * 0.1))  # noqa: S311
    return min(LONGEST_WAIT, max(1, math.ceil(spread)))
