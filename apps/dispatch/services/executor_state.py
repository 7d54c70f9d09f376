"""The state of a user executor: all that decides about its queue, read in one statement."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.db import fetch, instant, placeholders, table, transactional, unlikely
from apps.common.errors import NotFound
from apps.common.messages import Message as _
from apps.dispatch.models import Dispatch, Executor, Membership
from apps.dispatch.rules import names
from apps.dispatch.rules.queue import Versions

_SEEN_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """One user executor as the database had it at one moment.

    `open_dispatch` has the columns that ending it needs; Django reads the others on access.
    `versions` are the plan versions of the user and of its enabled groups, by executor id.
    """

    pk: int
    name: str
    enabled: bool
    last_seen_at: datetime | None
    open_dispatch: Dispatch | None
    versions: Versions

    @property
    def owners(self) -> list[int]:
        """The executors whose tasks are the user's: itself and its enabled groups."""
        return [pk for pk, _version in self.versions]

    def without_open(self) -> ExecutorState:
        """The state after the open dispatch has ended."""
        return replace(self, open_dispatch=None)


def state_of(pk: int) -> ExecutorState:
    """The state of an executor by id; NotFound when there is none."""
    found = states_of([pk]).get(pk)
    if found is None:
        raise NotFound(_("There is no person or group {number}.", number=pk))
    return found


def states_of(pks: Sequence[int]) -> dict[int, ExecutorState]:
    """The states of the executors that there are, by id."""
    if not pks:
        return {}
    return {each.pk: each for each in _read(f"e.id IN ({placeholders(len(pks))})", pks)}


def state_by_name(uid: str, *, bound: Iterable[str] | None = None) -> ExecutorState:
    """The state of a user; NotFound when unknown or outside the names in `bound`, Invalid for a
    group."""
    names.require_puller(uid, field="uid")
    found = next(iter(_read("e.name = %s", [uid])), None) if names.is_name(uid) else None
    if found is not None and bound is not None:
        if not Executor.objects.within(bound).filter(pk=found.pk).exists():
            found = None
    if found is None:
        raise NotFound(_("There is no person or group {name!r}.", name=uid[:80]))
    return found


def caller(uid: str, *, bound: Iterable[str] | None = None) -> ExecutorState:
    """The state of the user who calls, as `state_by_name`; that it called is stored, at most once
    a minute."""
    state = state_by_name(uid, bound=bound)
    now, before = clock.now(), state.last_seen_at
    if before is not None and now - before < _SEEN_EVERY:
        return state
    _store_seen(state.pk, before, now)
    return replace(state, last_seen_at=now)


@transactional
def _store_seen(pk: int, before: datetime | None, now: datetime) -> None:
    Executor.objects.filter(pk=pk, last_seen_at=before).update(last_seen_at=now)


_OF_USER = ("id", "name", "enabled", "plan_version", "last_seen_at")
# In the order of the columns of the model, as `from_db` takes them.
_OF_DISPATCH = (
    *("id", "executor_id", "source", "task", "occurrence", "occurrence_at"),
    *("state", "round", "holds_stock", "dispatched_at", "part_of", "open_for"),
)
_INSTANTS = ("occurrence_at", "dispatched_at")
# Where they end in a row.
_USER = len(_OF_USER)
_DISPATCH = _USER + len(_OF_DISPATCH)


def _read(condition: str, values: Sequence[Any]) -> Iterator[ExecutorState]:
    """The states, from one row per enabled group of a user, or one row without a group."""
    rows: dict[int, list[Any]] = {}
    for row in fetch(_statement(condition), values):
        rows.setdefault(row[0], []).append(row)
    return map(_state, rows.values())


def _state(rows: Sequence[Any]) -> ExecutorState:
    pk, name, enabled, version, seen = rows[0][:_USER]
    groups = {(group, plan) for *_rest, group, plan in rows if group is not None}
    return ExecutorState(
        pk=pk,
        name=name,
        enabled=bool(enabled),
        last_seen_at=instant(seen),
        open_dispatch=_open_dispatch(rows[0][_USER:_DISPATCH]),
        versions=((pk, version), *sorted(groups)),
    )


@functools.cache
def _statement(condition: str) -> str:
    people, dispatches = table(Executor), table(Dispatch)
    columns = [f"e.{name}" for name in _OF_USER] + [f"d.{name}" for name in _OF_DISPATCH]
    return (
        f"SELECT {', '.join(columns)}, g.id, g.plan_version "
        f"FROM {people} e LEFT JOIN {dispatches} d ON {unlikely('d.open_for = e.id')} "
        f"LEFT JOIN {table(Membership)} m ON m.user_id = e.id "
        f"LEFT JOIN {people} g ON g.id = m.group_id AND g.enabled "
        f"WHERE {condition}"
    )


def _open_dispatch(values: Sequence[Any]) -> Dispatch | None:
    row = dict(zip(_OF_DISPATCH, values, strict=True))
    if row["id"] is None:
        return None
    for name in _INSTANTS:
        row[name] = instant(row[name])
    row["holds_stock"] = bool(row["holds_stock"])
    return Dispatch.from_db(None, list(row), list(row.values()))
