"""The states of the jobs that share an error, with the number of jobs in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from apps.common.db import fetch_each, table
from apps.jobs.models import Job

# A job type and the key of an error.
Error: TypeAlias = tuple[str, str]
# How many of the newest jobs of each error are looked at; others may be in any state.
MAX_LOOKED_AT = 500


def states_of(errors: Iterable[Error]) -> Mapping[Error, Mapping[str, int] | None]:
    """The number of jobs in each state for each of these last errors; None for an error with too
    many jobs to know. Jobs in the archive do not count."""
    return {
        error: None if found.total() == MAX_LOOKED_AT else found
        for error, found in counts_of(errors).items()
    }


def counts_of(errors: Iterable[Error]) -> Mapping[Error, Counter[str]]:
    """The number of jobs in each state among the newest MAX_LOOKED_AT jobs of each error."""
    newest = (
        f"SELECT status FROM {table(Job)} WHERE error_key = %s AND type = %s "
        f"ORDER BY id DESC LIMIT {MAX_LOOKED_AT}"
    )
    select = f"SELECT %s, %s, status, COUNT(*) FROM ({newest}) jobs GROUP BY status"
    wanted = list(errors)
    counts: dict[Error, Counter[str]] = {error: Counter() for error in wanted}
    parts = ((select, (type_, key, key, type_)) for type_, key in wanted)
    for type_, key, status, count in fetch_each(parts):
        counts[type_, key][status] = count
    return counts
