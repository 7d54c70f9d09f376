"""Plans and personal queues in the cache: they save work, and nothing rests on them.

All name the plan versions that they were built at. Readers compare those with the database, so
what an edit has outdated is never used, whenever it was put here. The plan of a group is shared by
its members, and so is the work of building it.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from django.core.cache import cache

from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.queue import Queue, Versions
from apps.dispatch.rules.window import Window

logger = logging.getLogger(__name__)

Key = TypeVar("Key")
Held = TypeVar("Held")

# A builder that takes longer is given up by those who wait for it.
BUILD_SECONDS = 5
_LONGEST_WAIT = 0.25
_GLANCE = 0.005
# Candidates that one process holds, of about 300 bytes each.
MAX_NEAR = 50_000


class Plan(NamedTuple):
    """The active tasks of one executor that can be due within the frame, at one plan version."""

    version: int
    frame: Window
    tasks: list[Planned]


class Entry(NamedTuple):
    """A personal queue with the plan versions and the instant that it was built at."""

    versions: Versions
    built_at: datetime
    queue: Queue


class _Sealed(NamedTuple):
    """A plan or a queue as the cache has it: what an edit has outdated is passed over unread."""

    versions: Versions
    content: bytes


def _sealed(versions: Versions, content: Plan | Entry) -> _Sealed:
    if isinstance(content, Plan):
        # Plain tuples are written and read in half the time.
        content = content._replace(tasks=[tuple(task) for task in content.tasks])  # type: ignore[misc]
    return _Sealed(versions, pickle.dumps(content, pickle.HIGHEST_PROTOCOL))


def _opened(sealed: Any, versions: Versions | None) -> Any:
    """What was sealed at these versions, or None; with None whatever was sealed."""
    if not isinstance(sealed, _Sealed) or versions not in (None, sealed.versions):
        return None
    # As safe as what surrounds it, which Django's caches read in the same way.
    content = pickle.loads(sealed.content)  # noqa: S301
    if isinstance(content, Plan):
        return content._replace(tasks=list(map(Planned._make, content.tasks)))
    return content


def load_plans(versions: Versions) -> dict[int, Plan]:
    """The plans that are cached at those versions, by executor."""
    keys = {_plan_key(executor): (executor, version) for executor, version in versions}
    try:
        found = {keys[key]: sealed for key, sealed in cache.get_many(keys).items()}
        plans = {each[0]: _opened(sealed, (each,)) for each, sealed in found.items()}
    except Exception as error:  # noqa: BLE001
        _tell(error)
        return {}
    return {executor: plan for executor, plan in plans.items() if isinstance(plan, Plan)}


class Near(Generic[Key, Held]):
    """What this process used last, so that it need not be asked for; up to a weight in all."""

    def __init__(self, most: int, *, weigh: Callable[[Held], int]) -> None:
        self._most = most
        self._weigh = weigh
        self._held = 0
        self._entries: OrderedDict[Key, tuple[Held, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Held | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Key, held: Held) -> None:
        """Keep it; those not used for longest go until no more than `most` are held."""
        weight = self._weigh(held)
        with self._lock:
            self._drop(key)
            self._entries[key] = held, weight
            self._held += weight
            while self._held > self._most:
                self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        _, weight = self._entries.pop(key, (None, 0))
        self._held -= weight

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._held = 0


# Queues are judged by their versions, wherever they are, so none has to be told of an edit.
near: Near[int, Entry] = Near(MAX_NEAR, weigh=lambda entry: 1 + entry.queue.size)


def load(executor: int, versions: Versions) -> Entry | None:
    """The queue of the user at these versions, from this process or from the cache."""
    entry = near.get(executor)
    if entry is None or entry.versions != versions:
        entry = look(executor, versions)
        if entry is not None:
            near.put(executor, entry)
    return entry


def look(executor: int, versions: Versions | None = None) -> Entry | None:
    """What the cache has for the user, at these versions or whatever it was built at."""
    try:
        entry = _opened(cache.get(_key(executor)), versions)
    except Exception as error:  # noqa: BLE001
        _tell(error)
        return None
    return entry if isinstance(entry, Entry) else None


def _tell(error: Exception) -> None:
    # Written by another release, or by nobody of ours: reading a pickle can fail in any way.
    logger.warning("dispatch: what the cache holds cannot be read and is made anew: %s", error)


def save_plan(executor: int, plan: Plan, *, now: datetime) -> None:
    """Keep the plan until the end of its frame."""
    sealed = _sealed(((executor, plan.version),), plan)
    cache.set(_plan_key(executor), sealed, timeout=_seconds_to(plan.frame.upper, now))


def save(executor: int, entry: Entry, *, now: datetime) -> None:
    """Keep the queue until the end of the frame that it was built for."""
    entry.queue.unsaved = 0
    near.put(executor, entry)
    sealed = _sealed(entry.versions, entry)
    cache.set(_key(executor), sealed, timeout=_seconds_to(entry.queue.frame.upper, now))


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


def await_plan(executor: int, version: int) -> Plan | None:
    """The plan that another process is building, if it comes within a quarter of a second."""
    until = time.monotonic() + _LONGEST_WAIT
    building = True
    while building and time.monotonic() < until:
        time.sleep(_GLANCE)
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
