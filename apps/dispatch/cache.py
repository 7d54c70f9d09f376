"""Plans and queues in the shared cache, as JSON: they save work, and nothing depends on them.

Each names the plan versions that it was made at. Readers compare them with the database, so what an
edit has outdated is never used. The plan of a group is shared by its members, and so is the work of
building it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from django.core.cache import cache

from apps.dispatch.rules.queue import Identity, Versions
from apps.dispatch.rules.window import Window

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Others stop waiting for a builder that takes longer.
BUILD_SECONDS = 5
MAX_WAIT = 0.25
_POLL = 0.005


class SavedPlan(NamedTuple):
    """The active tasks of one executor that can be due within the frame, at one plan version: the
    rows of their tables, by source."""

    version: int
    frame: Window
    rows: Mapping[str, Sequence[Sequence[Any]]]


class SavedQueue(NamedTuple):
    """What is known of a user's queue beside its plans: when and at which plan versions it was
    built, of how many tasks, and the occurrences that the user can never have again."""

    versions: Versions
    built_at: datetime
    frame: Window
    size: int
    closed: Sequence[Identity]

    def covers(self, window: Window, now: datetime) -> bool:
        """Whether the queue has all that the window lets through at `now`."""
        return self.frame.lower <= window.lower and now < self.frame.upper


def load_plans(versions: Versions) -> dict[int, SavedPlan]:
    """The saved plans that have those versions, by executor."""
    keys = {_plan_key(executor): (executor, version) for executor, version in versions}
    found = read(lambda: cache.get_many(keys)) or {}
    plans = {}
    for key, value in found.items():
        executor, version = keys[key]
        plan = read(partial(_as_plan, value))
        if plan is not None and plan.version == version:
            plans[executor] = plan
    return plans


def _as_plan(value: Any) -> SavedPlan:
    version, frame, rows = value
    return SavedPlan(version, _as_window(frame), {str(name): rows[name] for name in rows})


def save_plan(executor: int, plan: SavedPlan, *, now: datetime) -> None:
    """Keep the plan until the end of its frame."""
    rows = {source: [_as_texts(row) for row in some] for source, some in plan.rows.items()}
    value = [plan.version, _as_texts((plan.frame.lower, plan.frame.upper)), rows]
    cache.set(_plan_key(executor), value, timeout=_seconds_to(plan.frame.upper, now))


def load_queue(executor: int) -> SavedQueue | None:
    """The queue that was saved last for the user, whatever versions it has."""
    return read(lambda: _as_queue(cache.get(_key(executor))))


def _as_queue(value: Any) -> SavedQueue | None:
    if value is None:
        return None
    versions, built_at, frame, size, closed = value
    return SavedQueue(
        tuple((int(executor), int(version)) for executor, version in versions),
        datetime.fromisoformat(built_at),
        _as_window(frame),
        int(size),
        [(source, task, occurrence) for source, task, occurrence in closed],
    )


def save_queue(executor: int, queue: SavedQueue, *, now: datetime) -> None:
    """Keep it until the end of its frame."""
    frame = _as_texts((queue.frame.lower, queue.frame.upper))
    value = [queue.versions, str(queue.built_at), frame, queue.size, queue.closed]
    cache.set(_key(executor), value, timeout=_seconds_to(queue.frame.upper, now))


def _as_texts(row: Sequence[Any]) -> list[Any]:
    """The values with their times as text: JSON of Django would cut them to milliseconds."""
    return [str(each) if isinstance(each, datetime) else each for each in row]


def _as_window(texts: Any) -> Window:
    lower, upper = texts
    return Window(datetime.fromisoformat(lower), datetime.fromisoformat(upper))


def read(parse: Callable[[], T]) -> T | None:
    """The value, or None where the cache holds junk or what another release has written."""
    try:
        return parse()
    except Exception as error:  # noqa: BLE001
        logger.warning("dispatch: cannot read what the cache holds, so it is built anew: %s", error)
        return None


def _seconds_to(end: datetime, now: datetime) -> int:
    return max(1, int((end - now).total_seconds()))


@contextmanager
def building(executor: int) -> Iterator[bool]:
    """Whether the caller is the one to build the executor's plan, or another process is at it.

    While the cache is away everybody builds for itself.
    """
    name = _builder(executor)
    mine = bool(cache.add(name, 1, timeout=BUILD_SECONDS))
    try:
        yield mine or cache.get(name) is None
    finally:
        if mine:
            cache.delete(name)


def await_plan(executor: int, version: int) -> SavedPlan | None:
    """The plan that another process is building, if it comes within a quarter of a second."""
    until = time.monotonic() + MAX_WAIT
    building = True
    while building and time.monotonic() < until:
        time.sleep(_POLL)
        building = cache.get(_builder(executor)) is not None
        # Looked for after the builder, who ends by putting it there.
        plan = load_plans(((executor, version),)).get(executor)
        if plan is not None:
            return plan
    return None


def _key(executor: int) -> str:
    return f"dispatch:queue:{executor}"


def _plan_key(executor: int) -> str:
    return f"dispatch:plan:{executor}"


def _builder(executor: int) -> str:
    return f"dispatch:plan:{executor}:builder"
