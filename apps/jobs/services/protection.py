"""Limits of a type over all workers: maximum running, rate, breaker."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common.db import fetch, placeholders, table
from apps.common.rows import ensure_rows, update_rows
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
        ensure_rows(TypeState, ["type"], [_columns(TypeState(type=name)) for name in missing])
        found = _locked(names)
    return found


def _columns(state: TypeState) -> dict[str, Any]:
    return {field.attname: getattr(state, field.attname) for field in state._meta.concrete_fields}


def _save(states: Iterable[TypeState]) -> None:
    """Write locked states, all in one statement."""
    changes = {state.type: _columns(state) for state in states}
    for columns in changes.values():
        del columns["type"]
    update_rows(TypeState, changes)


def _locked(names: list[str]) -> dict[str, TypeState]:
    states = TypeState.objects.select_for_update().filter(type__in=names).order_by("type")
    return {state.type: state for state in states}


class TypeLimits:
    """The limited types of one hold, locked, and how many of each may be held now.

    `states` are those that a hold changes.
    """

    def __init__(self, states: Mapping[str, TypeState], free: Mapping[str, int]) -> None:
        self.free = free
        self._states = states

    @classmethod
    def of(
        cls, types: Sequence[TypeSnapshot], states: Mapping[str, TypeState], now: datetime
    ) -> TypeLimits:
        """The limits of these types, whose states are locked."""
        running = _running([type_.name for type_ in types])
        free = {}
        for type_ in types:
            state = states[type_.name]
            state.breaker_state = breaker.at(type_.breaker, state.breaker_state, now)
            probes = probes_of(type_.name, state.breaker_state)
            free[type_.name] = _free(type_, state, running[type_.name], probes, now)
        changing = {
            type_.name
            for type_ in types
            if type_.breaker.enabled or type_.rate_per_minute is not None
        }
        return cls({name: states[name] for name in changing}, free)

    @property
    def full(self) -> list[str]:
        """The types of which none may be held now."""
        return [name for name, left in self.free.items() if left <= 0]

    def count(self, held: Iterable[str]) -> None:
        """Take the tokens of the held jobs, by type, and store the states of these types.

        The states of other types need no write: they follow from the stored ones at any time.
        """
        counted = Counter(held)
        changed = [state for name, state in self._states.items() if counted[name]]
        for state in changed:
            if state.tokens is not None:
                state.tokens -= counted[state.type]
        _save(changed)


def probes_of(type_: str, state: breaker.BreakerState) -> int:
    """How many running jobs of the type test a half-open breaker; older ones go on beside them."""
    if state.state != breaker.HALF_OPEN:
        return 0
    [(count,)] = fetch(
        f"SELECT COUNT(*) FROM {table(Job)} WHERE status = %s AND type = %s AND held_at >= %s",
        [RUNNING, type_, state.since],
    )
    return int(count)


def _free(type_: TypeSnapshot, state: TypeState, running: int, probes: int, now: datetime) -> int:
    free: float = math.inf
    for limit, used in (
        (type_.max_running, running),
        (breaker.max_running(type_.breaker, state.breaker_state, now), probes),
    ):
        if limit is not None:
            free = min(free, limit - used)
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
    ends: Iterable[tuple[str, datetime, bool]],
    now: datetime,
) -> None:
    """Count ends of attempts in the breakers: of each its type, when it was held, and whether it
    failed.

    The states were locked before the jobs, as a hold does.
    """
    at = {
        name: breaker.at(types[name].breaker, each.breaker_state, now)
        for name, each in states.items()
    }
    calls, failures = Counter[str](), Counter[str]()
    for name, held_at, failed in ends:
        if name in at and breaker.judges(at[name], held_at):
            calls[name] += 1
            failures[name] += failed
    for name, state in states.items():
        if calls[name]:
            state.breaker_state = breaker.record(
                types[name].breaker,
                at[name],
                now,
                calls=calls[name],
                failures=failures[name],
            )
    _save(state for name, state in states.items() if calls[name])


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
