"""The tasks that an executor would get over time: a simulation of its own queue.

The executor finishes every task at once, and no other executor takes any. Order, window and
verdicts are those of a pull; only the clock and the hand-outs are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple, TypeAlias

from apps.dispatch.rules.past import Held, Past
from apps.dispatch.rules.policy import ALREADY_TAKEN, SUCCEEDED
from apps.dispatch.rules.queue import Candidate, Identity, Queue
from apps.dispatch.rules.window import Window

# The queue drops candidates that are over once it holds this many.
_MAX_OVER = 64
# The id of a task that is not saved yet; it comes after all others of the same rank.
NO_ID = 2**63 - 1
# The window at an instant.
Windows: TypeAlias = Callable[[datetime], Window]


class Item(NamedTuple):
    """One hand-out: `at` is when the executor would get it, `remaining` how often the occurrence
    was yet to be handed out just before, `number` that of a dispatch that is open already.

    `title` is empty until a service reads it, except for an open dispatch.
    """

    at: datetime
    source: str
    task: int
    occurrence_at: datetime
    title: str
    priority: int
    remaining: int
    number: int | None

    @property
    def saved_task(self) -> int | None:
        return None if self.task == NO_ID else self.task


def steps_of_user(
    queue: Queue, past: Past, held: Held | None, *, now: datetime, until: datetime, windows: Windows
) -> Iterator[Item]:
    """The hand-outs to a user from `now` to before `until`, in this order; `past` moves on with
    them.

    The open dispatch is first, unless its deadline has passed: it then ends by its task's policy,
    if the task is there.
    """
    held = past.close_if_expired(held, now)
    if held is not None and now < until:
        yield _item(held.candidate, past, now, held)
        past.close(held, SUCCEEDED, now)
    at: datetime | None = now
    over: set[Identity] = set()
    while at is not None and at < until:
        cooling: list[datetime] = []
        for candidate in queue.due(at, windows(at)):
            identity = candidate.identity
            # A blocking task comes again at once.
            while identity not in over:
                given = past.verdict_on(candidate, at)
                is_used_up = given.carried is None and past.is_used_up(candidate)
                if given.until is not None:
                    cooling.append(given.until)
                if given.code == ALREADY_TAKEN or is_used_up:
                    over.add(identity)
                elif given.allows:
                    yield _item(candidate, past, at)
                    past.hand_out(candidate, given, at)
                    continue
                break
        if len(over) >= _MAX_OVER:
            queue.drop(over)
            over = set()
        at = _next(queue, at, cooling)


def steps_of_group(
    queue: Queue, past: Past, *, now: datetime, until: datetime, windows: Windows
) -> Iterator[Item]:
    """The occurrences that the members of a group could get from `now` to before `until`.

    Each once: a missed one that is made up for is due again beside the next one.
    """
    at: datetime | None = now
    seen_before: set[Identity] = set()
    while at is not None and at < until:
        seen: set[Identity] = set()
        for candidate in queue.due(at, windows(at)):
            if candidate.identity in seen_before:
                continue
            seen.add(candidate.identity)
            # Occurrences that nobody has had are shown, even if the group has no members yet.
            if past.remaining(candidate) or not past.taken(candidate):
                yield _item(candidate, past, at)
        seen_before |= seen
        queue.drop(seen)
        at = _next(queue, at, [])


def _next(queue: Queue, at: datetime, cooling: list[datetime]) -> datetime | None:
    coming = queue.next_at(at)
    return min([*cooling, *([] if coming is None else [coming])], default=None)


def _item(of: Candidate, past: Past, at: datetime, held: Held | None = None) -> Item:
    number, title = (None, "") if held is None else (held.number, held.title)
    left = past.remaining(of)
    return Item(at, of.source, of.task, of.occurrence_at, title, of.priority, left, number)
