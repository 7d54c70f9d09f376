"""Peeking at what is ready: plain reads in the order of the claim index, which lock nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from apps.common.db import fetch_each, instant, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import END_LOST, READY
from apps.jobs.rules.type_snapshot import TypeSnapshot


class Candidate(NamedTuple):
    """A job that may be held; `expected_at`, as the driver has it, only where the type expires."""

    order_key: int
    id: int
    type: str
    last_end: str
    attempts: int
    max_attempts: int
    expected_at: Any

    @property
    def is_suspect(self) -> bool:
        return self.last_end == END_LOST or self.max_attempts == 1

    def is_over(self, policy: TypeSnapshot, now: datetime) -> bool:
        """Whether it must not run any more: no attempt is left, or it is too old."""
        if self.attempts >= self.max_attempts:
            return True
        expiry = policy.expires_at(instant(self.expected_at)) if policy.expires_after else None
        return expiry is not None and now >= expiry


def with_work(types: list[str], hosts: list[str] | None) -> set[str]:
    """The types with at least one ready job for these hosts, None for any; one read for each."""
    only = "" if hosts is None else f" AND affinity_host IN ({placeholders(len(hosts))})"
    one = f"SELECT type FROM {table(Job)} WHERE status = %s AND type = %s{only} LIMIT 1"
    return {row[0] for row in fetch_each((one, (READY, name, *(hosts or ()))) for name in types)}


# Reading a time costs as much as all the other columns, and most types never expire.
_PEEKED = "order_key, id, type, last_end, attempts, max_attempts, "


def first_ready(
    wanted: list[tuple[TypeSnapshot, int]], hosts: list[str]
) -> dict[str, list[Candidate]]:
    """The first ready jobs of each type for these hosts, at most the number beside it.

    One range of the claim index for each type and host, so that nothing is sorted.
    """
    rows = fetch_each(
        (
            f"SELECT {_PEEKED}{'expected_at' if policy.expires_after else 'NULL'} "
            f"FROM {table(Job)} WHERE status = %s AND type = %s AND affinity_host = %s "
            "ORDER BY order_key, id LIMIT %s",
            (READY, policy.name, host, most),
        )
        for policy, most in wanted
        for host in hosts
    )
    found: dict[str, list[Candidate]] = {policy.name: [] for policy, _ in wanted}
    for row in rows:
        found[row[2]].append(Candidate._make(row))
    return {policy.name: sorted(found[policy.name])[:most] for policy, most in wanted}
