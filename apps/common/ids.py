"""Ids made before the insert: 63 bits = 41 of milliseconds since 2025, 14 of node, 8 of sequence.

A caller that repeats an insert after a lost answer uses the same id, so a duplicate primary key
*is* its own earlier row. That is why each process leases a node number instead of drawing random
bits: with 22 random bits, busy processes would collide every few hours. 14 bits allow 16,384
starts within the time that a number rests, more than any crash loop makes. A process makes 256
ids in one millisecond, then uses the next milliseconds in advance.

Ids of different processes are ordered by time only to within seconds.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, connection, transaction

from apps.common import clock
from apps.common.db import before_transactions, repeatable
from apps.common.errors import Unavailable
from apps.common.messages import Message as _
from apps.common.models import NodeLease

EPOCH = datetime(2025, 1, 1, tzinfo=UTC)
NODE_BITS = 14
SEQUENCE_BITS = 8
NODES = 1 << NODE_BITS
LEASE = timedelta(minutes=10)
# A number rests this long after its lease, longer than any clock may be wrong.
REST = timedelta(hours=1)

_HALF = LEASE / 2
_ONE_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Lease:
    """A node number that this process holds until an instant."""

    node: int
    token: str
    until: datetime
    pid: int

    def is_good(self, now: datetime) -> bool:
        """Whether the lease has not expired, and is not inherited by a fork."""
        return now < self.until and self.pid == os.getpid()

    def wants_renewal(self, now: datetime) -> bool:
        return self.until - now <= _HALF


class IdMaker:
    """Makes the ids of one process, which holds a node lease.

    The lock is not held during queries: on SQLite a thread waiting for the lock could be in the
    transaction that the query waits for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lease: _Lease | None = None
        # Leases taken inside a transaction, by thread, until it is known to have committed.
        self._unproven = threading.local()
        self._last_ms = 0
        self._sequence = 0

    def reserve(self) -> None:
        """Take or renew the lease outside of a transaction, so that none has to do it."""
        self._held(clock.now())

    def next_ids(self, count: int, now: datetime | None = None) -> list[int]:
        """`count` new ids, ascending; pass `now` if it was just read."""
        now = now or clock.now()
        lease = self._held(now)
        present_ms = (now - EPOCH) // _ONE_MS
        with self._lock:
            return [self._next(present_ms, lease.node) for _ in range(count)]

    def _next(self, present_ms: int, node: int) -> int:
        """One id, of a later millisecond if the present one is used up."""
        if present_ms > self._last_ms:
            self._last_ms, self._sequence = present_ms, 0
        else:
            self._sequence += 1
            if self._sequence >> SEQUENCE_BITS:
                self._last_ms, self._sequence = self._last_ms + 1, 0
        return (
            (self._last_ms << (NODE_BITS + SEQUENCE_BITS))
            | (node << SEQUENCE_BITS)
            | self._sequence
        )

    def _held(self, now: datetime) -> _Lease:
        lease = self._lease
        if lease is not None and lease.is_good(now):
            if lease.wants_renewal(now) and not connection.in_atomic_block:
                return self._renewed(lease, now)
            return lease
        lease = self._proven(now)
        if lease is None:
            lease = _acquire(now)
        if connection.in_atomic_block:
            self._unproven.lease = lease
        else:
            self._lease = lease
        return lease

    def _proven(self, now: datetime) -> _Lease | None:
        """The lease that this thread took in a transaction, if that was committed."""
        lease: _Lease | None = getattr(self._unproven, "lease", None)
        self._unproven.lease = None
        if lease is None or not lease.is_good(now):
            return None
        kept = NodeLease.objects.filter(node=lease.node, token=lease.token).exists()
        return lease if kept else None

    def _renewed(self, lease: _Lease, now: datetime) -> _Lease:
        until = now + LEASE
        own = NodeLease.objects.filter(node=lease.node, token=lease.token)
        renewed = repeatable(own.update)(leased_until=until)
        self._lease = (
            _Lease(lease.node, lease.token, until, lease.pid) if renewed else _acquire(now)
        )
        return self._lease


def _acquire(now: datetime) -> _Lease:
    """Lease a node number that no process has held within the hour; Unavailable without one."""
    token, until, rested = secrets.token_hex(16), now + LEASE, now - REST
    resting = NodeLease.objects.filter(leased_until__gte=rested)
    free = [*{*range(NODES)}.difference(resting.values_list("node", flat=True))]
    for node in random.sample(free, k=min(50, len(free))):
        if _take(node, token, until, rested):
            return _Lease(node, token, until, os.getpid())
    raise Unavailable(
        _(
            "All {count} node numbers are in use or resting; stop processes that are not needed "
            "or wait an hour.",
            count=NODES,
        ),
        retry_after=60,
    )


@repeatable
def _take(node: int, token: str, until: datetime, rested: datetime) -> bool:
    """Take the number unless another process was faster."""
    old = NodeLease.objects.filter(node=node, leased_until__lt=rested)
    if old.update(token=token, leased_until=until):
        return True
    try:
        with transaction.atomic():
            NodeLease.objects.create(node=node, token=token, leased_until=until)
    except IntegrityError:
        return False
    return True


_maker = IdMaker()
before_transactions(_maker.reserve)


def next_ids(count: int, now: datetime | None = None) -> list[int]:
    """`count` new ids, ascending; pass `now` if it was just read."""
    return _maker.next_ids(count, now)


def next_id() -> int:
    """One new id."""
    return _maker.next_ids(1)[0]


def lowest_id_at(instant: datetime) -> int:
    """The smallest id that could be made at the instant: a bound on ids for a bound on time."""
    ms = max(0, (instant - EPOCH) // _ONE_MS)
    return ms << (NODE_BITS + SEQUENCE_BITS)


def made_at(number: int) -> datetime:
    """When the id was made, to the millisecond."""
    return EPOCH + (number >> (NODE_BITS + SEQUENCE_BITS)) * _ONE_MS
