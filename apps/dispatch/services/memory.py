"""What a process remembers of the users that it serves, which saves most of its reads.

Nothing rests on it: who asks is read anew each time, with all that the user has done since, and a
hand-out checks under locks whatever was remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from apps.dispatch.cache import Near
from apps.dispatch.rules.policy import FAILED, SUCCEEDED, PastDispatch
from apps.dispatch.rules.queue import Identity, Versions

# Occurrences that one process remembers, of about 300 bytes each.
MAX_REMEMBERED = 50_000
# What the user has had was handed out: there is a stock row, whatever it says by now.
_SOME = 0


class Looked(NamedTuple):
    """An occurrence that was looked at: how often it was handed out, None when it had no stock row,
    and the user's latest dispatch of it."""

    handed: int | None
    last: PastDispatch | None


class Ended(NamedTuple):
    """A dispatch of the user that is over."""

    number: int
    identity: Identity
    occurrence_at: datetime
    past: PastDispatch


class Held(NamedTuple):
    """A dispatch that this process has handed to the user, with what is needed to end it, and how
    the user stood then."""

    number: int
    of_open: tuple[Any, ...]
    versions: Versions
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing is due at these plan versions before `until`."""

    versions: Versions
    until: datetime


@dataclass(frozen=True, slots=True)
class Memory:
    """One user as it was when somebody looked.

    `groups` are all that it was in at that `version` of its plan, enabled or not. What has ended
    since is among its dispatches from the id `since` on; `looked` and `latest_done`, as in a
    standing, tell of those before. `held` may be over by now.
    """

    pk: int
    version: int
    groups: tuple[int, ...]
    since: int
    latest_done: datetime | None
    looked: Mapping[Identity, Looked] = field(default_factory=dict)
    quiet: Quiet | None = None
    held: Held | None = None

    def after(self, ended: Iterable[Ended], *, since: int) -> Memory:
        """The same with these dispatches, which are all that have ended from `self.since` on."""
        looked, latest_done = dict(self.looked), self.latest_done
        for each in sorted(ended, key=lambda each: each.number):
            if each.past.state in (SUCCEEDED, FAILED):
                latest_done = each.occurrence_at
            note_past(looked, each.identity, each.past)
        return Memory(self.pk, self.version, self.groups, since, latest_done, looked)

    def seen(
        self,
        latest_done: datetime | None,
        looked: Mapping[Identity, Looked],
        quiet: Quiet | None,
        held: Held | None,
    ) -> Memory:
        """The same with what has been looked at since, and handed out."""
        known = (self.pk, self.version, self.groups, self.since)
        return Memory(*known, latest_done, looked, quiet, held)

    @property
    def weight(self) -> int:
        return 1 + len(self.looked)


def note_past(looked: dict[Identity, Looked], identity: Identity, past: PastDispatch) -> None:
    """Put down the user's latest dispatch of an occurrence, without its `earlier_counts`."""
    if past.rounds > 1:
        # Whether one before it still counts, only its table tells.
        looked.pop(identity, None)
    else:
        looked[identity] = Looked(_SOME, past)


_memories: Near[str, Memory] = Near(MAX_REMEMBERED, weigh=lambda memory: memory.weight)


def recall(name: str) -> Memory | None:
    """What this process remembers of the user of that name."""
    return _memories.get(name)


def keep(name: str, memory: Memory) -> None:
    """Remember it; users not served for longest are forgotten first."""
    _memories.put(name, memory)


def forget_all() -> None:
    """Begin as a new process does."""
    _memories.clear()
