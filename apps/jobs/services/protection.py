"""Limits of a type over all workers: maximum running, rate, breaker."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common.db import fetch, placeholders, table
from apps.common.rows import ensure_row
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import breaker, rate
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.rules.type_snapshot import TypeSnapshot


def lock_states(types: Iterable[str]) -> dict[str, TypeState]:
    """The states of these types, locked for the rest of the transaction and made if need be."""
    names = sorted(types)
    found = _locked(names)
    missing = [name for name in names if name not in found]
    if missing:
        for name in missing:
            ensure_row(TypeState, ["type"], _untouched(name))
        found = _locked(names)
    return found


def _untouched(name: str) -> dict[str, Any]:
    fresh = TypeState(type=name)
    return {field.attname: getattr(fresh, field.attname) for field in fresh._meta.concrete_fields}


def _locked(names: list[str]) -> dict[str, TypeState]:
    states = TypeState.objects.select_for_update().filter(type__in=names).order_by("type")
    return {state.type: state for state in states}


class TypeLimits:
    """The limited types of one hold, locked, and how many of each may be held now."""

    def __init__(self, states: Mapping[str, TypeState], free: Mapping[str, int]) -> None:
        self._states = states
        self._free = dict(free)

    @classmethod
    def lock(cls, types: Sequence[TypeSnapshot], now: datetime) -> TypeLimits:
        states = lock_states(type_.name for type_ in types)
        running = _running([type_.name for type_ in types])
        free = {}
        for type_ in types:
            state = states[type_.name]
            state.breaker_state = breaker.at(type_.breaker, state.breaker_state, now)
            free[type_.name] = _free(type_, state, running[type_.name], now)
        return cls(states, free)

    @property
    def full(self) -> list[str]:
        """The types of which none may be held now."""
        return [name for name, left in self._free.items() if left <= 0]

    def let_through(self, jobs: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """The jobs of each type that the limits leave."""
        passed = {name: numbers[: self._free.get(name)] for name, numbers in jobs.items()}
        return {name: numbers for name, numbers in passed.items() if numbers}

    def count(self, held: Iterable[str]) -> None:
        """Take the tokens of what was held, by type, and keep the states of these types.

        Those of the others follow from what is kept, whenever they are asked for.
        """
        for name, taken in Counter(held).items():
            state = self._states.get(name)
            if state is None:
                continue
            if state.tokens is not None:
                state.tokens -= taken
            state.save()


def _free(type_: TypeSnapshot, state: TypeState, running: int, now: datetime) -> int:
    free: float = math.inf
    for limit in (
        type_.max_running,
        breaker.max_running(type_.breaker, state.breaker_state, now),
    ):
        if limit is not None:
            free = min(free, limit - running)
    if type_.rate_per_minute is not None:
        state.tokens = rate.tokens_at(type_.rate_per_minute, state.tokens, state.filled_at, now)
        state.filled_at = now
        free = min(free, math.floor(state.tokens))
    return max(0, int(min(free, 2**31)))


def _running(types: list[str]) -> Counter[str]:
    rows = fetch(
        f"SELECT type, COUNT(*) FROM {table(Job)} WHERE status = %s "
        f"AND type IN ({placeholders(len(types))}) GROUP BY type",
        [RUNNING, *types],
    )
    return Counter(dict(rows))


def count_ends(
    types: Mapping[str, TypeSnapshot],
    states: Mapping[str, TypeState],
    ends: Iterable[tuple[str, bool]],
    now: datetime,
) -> None:
    """Count ends of attempts in the breakers: pairs of type and whether it failed.

    The states were locked before the jobs, as a hold does.
    """
    calls, failures = Counter[str](), Counter[str]()
    for name, failed in ends:
        if name in states:
            calls[name] += 1
            failures[name] += failed
    for name, state in states.items():
        if calls[name]:
            state.breaker_state = breaker.record(
                types[name].breaker,
                state.breaker_state,
                now,
                calls=calls[name],
                failures=failures[name],
            )
            state.save()


class BreakerNow(NamedTuple):
    """A breaker at this instant. `probe_at`: when an open one lets the first job through."""

    state: str
    probe_at: datetime | None
    calls: int
    failures: int


def breakers(types: Iterable[TypeSnapshot], now: datetime) -> dict[str, BreakerNow]:
    """The breakers of the types that have one, by type."""
    guarded = {each.name: each.breaker for each in types if each.breaker.enabled}
    if not guarded:
        return {}
    rows = TypeState.objects.filter(type__in=guarded)
    stored = {row.type: row.breaker_state for row in rows}
    found = {}
    for name, policy in guarded.items():
        state = breaker.at(policy, stored.get(name, breaker.BreakerState()), now)
        probe_at = None
        if state.state == breaker.OPEN and state.since is not None:
            probe_at = state.since + timedelta(seconds=policy.open_seconds)
        found[name] = BreakerNow(state.state, probe_at, state.calls, state.failures)
    return found
