"""Personal queues in the cache: they save work, and nothing rests on them.

An entry names the plan versions that it was built at. Readers compare them with those in the
database, so an entry that an edit has outdated is never used, whenever it was put here.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime
from typing import NamedTuple

from django.core.cache import cache

from apps.dispatch.rules.queue import Queue, Versions

logger = logging.getLogger(__name__)

# A builder that takes longer is given up by those who wait for it.
BUILD_SECONDS = 5
_LONGEST_WAIT = 0.25
_GLANCE = 0.005


class Entry(NamedTuple):
    """A queue with the plan versions and the instant that it was built at."""

    versions: Versions
    built_at: datetime
    queue: Queue


def load(executor: int) -> Entry | None:
    """The entry of the executor, whatever it was built at; None when there is none to be read."""
    try:
        entry = cache.get(_key(executor))
    except Exception as error:  # noqa: BLE001
        # Written by another release, or by nobody of ours: reading a pickle can fail in any way.
        logger.warning("dispatch: the cached queue of executor %s is no use: %s", executor, error)
        return None
    return entry if isinstance(entry, Entry) else None


def save(executor: int, entry: Entry, *, now: datetime) -> None:
    """Keep the entry until the end of the frame that it was built for."""
    seconds = (entry.queue.frame.upper - now).total_seconds()
    entry.queue.unsaved = 0
    cache.set(_key(executor), entry, timeout=max(1, int(seconds)))


def forget(executor: int) -> None:
    """Let the next pull build the queue anew."""
    cache.delete(_key(executor))


def may_build(executor: int) -> bool:
    """Whether the caller is the one to build; False = another process is at it right now."""
    name = _builder(executor)
    return bool(cache.add(name, 1, timeout=BUILD_SECONDS)) or cache.get(name) is None


def built(executor: int) -> None:
    """Let others build again."""
    cache.delete(_builder(executor))


def await_build(executor: int, versions: Versions) -> Entry | None:
    """The entry that another process is building, if it comes within a quarter of a second."""
    until = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < until:
        time.sleep(_GLANCE)
        entry = load(executor)
        if entry is not None and entry.versions == versions:
            return entry
        if cache.get(_builder(executor)) is None:
            return None
    return None


def _key(executor: int) -> str:
    return f"dispatch:queue:{executor}"


def _builder(executor: int) -> str:
    return f"dispatch:queue:{executor}:builder"
