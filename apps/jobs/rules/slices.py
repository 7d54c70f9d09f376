"""The shards that each worker prefers: a preference that spreads workers, never a right.

The owner of a shard is the worker with the highest hash of shard and worker (rendezvous hashing),
so a worker that comes or goes moves only its own part, 1/n of the shards.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

from apps.jobs.rules.submission import SHARDS

# The maximum number of workers that own shards of a type; the others are spares.
MAX_OWNERS = 64
# The map changes at most this often, so a worker that comes and goes moves little.
CHANGE_EVERY = timedelta(seconds=10)
# Workers send a heartbeat each 5 s: one that has sent another so long after its first stays.
STEADY_AFTER = timedelta(seconds=4)
# One digest of 64 bytes gives the hashes of this many shards: 7 times as fast as one digest each.
_AT_ONCE = 16
_unpacked = struct.Struct(f">{_AT_ONCE}I").unpack


def member_key(client: str, name: str) -> str:
    """The name of a worker in the map; clients have no slash in their names."""
    return f"{client}/{name}"


def client_and_name(member: str) -> tuple[str, str]:
    """The API key, "" in-house, and the name of the worker."""
    client, _, name = member.partition("/")
    return client, name


@dataclass(frozen=True)
class Slices:
    """The shards of one type: who owns each, and the spares, both by name."""

    owners: tuple[str, ...]
    spares: tuple[str, ...]
    # For each shard the position of its owner among them; empty without owners.
    _owner: bytes

    def owner_of(self, shard: int) -> str:
        """The worker that prefers the shard; "" when there is none."""
        return self.owners[self._owner[shard]] if self._owner else ""

    def shards_of(self, member: str) -> list[int]:
        if member not in self.owners:
            return []
        own = self.owners.index(member)
        return [shard for shard, owner in enumerate(self._owner) if owner == own]


@lru_cache(maxsize=512)
def slices_among(members: frozenset[str]) -> Slices:
    """The slices of these workers. The first ones by the hash of their names own shards, so that
    spares move up when others go."""
    by_hash = sorted(members, key=lambda each: (_digest(each, b"spare"), each))
    owners = tuple(sorted(by_hash[:MAX_OWNERS]))
    hashes = [_hashes(each) for each in owners]
    positions = range(len(owners))
    owner = bytes(
        max(positions, key=[each[shard] for each in hashes].__getitem__)
        for shard in range(SHARDS if owners else 0)
    )
    return Slices(owners, tuple(sorted(by_hash[MAX_OWNERS:])), owner)


def _hashes(member: str) -> list[int]:
    """The hash of the member with each shard."""
    found: list[int] = []
    for first in range(0, SHARDS, _AT_ONCE):
        found += _unpacked(_digest(member, first.to_bytes(2, "big")))
    return found


def _digest(member: str, salt: bytes) -> bytes:
    return blake2b(member.encode(), salt=salt).digest()


@dataclass(frozen=True)
class SliceMap:
    """The members, each with the types it serves, since an instant. Each change is an epoch."""

    epoch: int = 0
    since: datetime | None = None
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def _serving(self) -> dict[str, frozenset[str]]:
        """The members that serve each type."""
        serving: dict[str, set[str]] = {}
        for member, types in self.members.items():
            for name in types:
                serving.setdefault(name, set()).add(member)
        return {name: frozenset(members) for name, members in serving.items()}

    def slices_of(self, type_: str) -> Slices:
        return slices_among(self._serving.get(type_, frozenset()))

    def shards_of(self, member: str) -> list[int]:
        """The shards that the member prefers in any of its types."""
        slices = {self.slices_of(name) for name in self.members.get(member, ())}
        return sorted({shard for each in slices for shard in each.shards_of(member)})

    def may_change_at(self, now: datetime) -> datetime | None:
        """When the next change is possible; None when it is now, also after the clock went back."""
        if self.since is None or not self.since <= now < self.since + CHANGE_EVERY:
            return None
        return self.since + CHANGE_EVERY

    def to_json(self) -> dict[str, Any]:
        """Members with the same types together: most have, and there may be hundreds of types."""
        groups: dict[frozenset[str], list[str]] = {}
        for member, types in sorted(self.members.items()):
            groups.setdefault(types, []).append(member)
        return {
            "epoch": self.epoch,
            "members": [
                {"types": sorted(types), "workers": workers} for types, workers in groups.items()
            ],
            "since": self.since and self.since.isoformat(),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> SliceMap:
        """The map that was saved; an empty one when none was."""
        if not saved:
            return cls()
        groups = [(frozenset(each["types"]), each["workers"]) for each in saved["members"]]
        return cls(
            saved["epoch"],
            saved["since"] and datetime.fromisoformat(saved["since"]),
            {member: types for types, workers in groups for member in workers},
        )


@dataclass(frozen=True, kw_only=True)
class Living:
    """A worker that takes jobs of these types now; `is_steady` after its second heartbeat."""

    types: frozenset[str]
    is_steady: bool


def next_map(current: SliceMap, living: Mapping[str, Living], now: datetime) -> SliceMap:
    """The map that follows: the same one until CHANGE_EVERY has passed and the members differ.

    A worker comes in when it is steady, and goes out when it does not live any more.
    """
    members = {
        name: each.types
        for name, each in living.items()
        if each.types and (each.is_steady or name in current.members)
    }
    if members == dict(current.members) or current.may_change_at(now) is not None:
        return current
    return SliceMap(current.epoch + 1, now, members)
