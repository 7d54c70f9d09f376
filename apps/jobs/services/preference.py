"""The preference of a worker among the jobs that it found: those of its own shards come first.

So workers beside each other seldom try for the same rows. A preference is no right: the worker
takes the remaining jobs in order, and every fourth look at a type is plain. So the first job in
line is passed over in at most three looks, whichever worker prefers it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from apps.jobs.rules.slices import Slices, member_key
from apps.jobs.services.slices import slice_map

PLAIN_EVERY = 4
# The number of looks of this process at each type that preferred own jobs or could have. The
# rotation of a hold would not do as a count: with one slot, it decides which type is looked at, and
# looks at some types would never be plain.
looks: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(1))


class FoundJob(NamedTuple):
    """A job in its order."""

    order_key: int
    number: int
    shard: int


class Preference:
    """The jobs to take first, for one look at some types."""

    def __init__(self, client: str, name: str, sliced: Iterable[str]) -> None:
        """Prefer some jobs of the types in `sliced`, and none of others."""
        self._member = member_key(client, name)
        self._slices = self._slices_of(sliced)

    def _slices_of(self, types: Iterable[str]) -> dict[str, Slices]:
        """The slices of the types whose jobs the worker shares with others; no others matter."""
        known = slice_map()
        if self._member not in known.members:
            return {}
        shared = ((name, known.slices_of(name)) for name in types)
        return {
            name: slices
            for name, slices in shared
            if len(slices.owners) > 1
            and self._member in slices.owners
            and next(looks[name]) % PLAIN_EVERY
        }

    def sharers(self, type_: str) -> int:
        """How many workers share the jobs of the type, 1 in a plain look."""
        return len(self._slices[type_].owners) if type_ in self._slices else 1

    def order(self, type_: str, found: Sequence[FoundJob]) -> list[int]:
        """The jobs as they are to be tried: own ones in order, then others in order."""
        jobs = sorted(found)
        if type_ in self._slices:
            slices, member = self._slices[type_], self._member
            # Sorting keeps the order of equals.
            jobs.sort(key=lambda job: slices.owner_of(job.shard) != member)
        return [job.number for job in jobs]
