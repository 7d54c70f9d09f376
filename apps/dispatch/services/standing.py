"""Who asks: a user executor with all that decides about its queue, in one read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from apps.common import clock, ids
from apps.common.db import fetch, force_index, instant, placeholders, rare, table, transactional
from apps.common.errors import Invalid, NotFound
from apps.common.messages import Message as _
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, Membership
from apps.dispatch.rules import names
from apps.dispatch.rules.policy import PastDispatch
from apps.dispatch.rules.queue import Versions
from apps.dispatch.rules.window import Window, window
from apps.dispatch.services import memory
from apps.dispatch.services.memory import Ended, Held, Memory

# Ids and dispatched_at are drawn one after the other.
_A_DAY = timedelta(days=1)
# The clocks of machines that ask the time of each other; a hand-out finds out where they do not.
_CLOCKS_DIFFER = timedelta(milliseconds=100)
# Who has more groups, or has had more tasks since, is read from the beginning.
_MAX_ROWS = 200
_SEEN_EVERY = timedelta(minutes=1)


class User(Protocol):
    """A user executor, be it its row or its standing."""

    @property
    def pk(self) -> int: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """`versions` are the plan versions of the user and of its enabled groups, by executor id;
    `latest_done` is the occurrence_at of its latest dispatch that succeeded or failed; `in_hand` is
    its open dispatch, with what is needed to end it: the rest is read when it is asked for;
    `memory` is what is remembered of the user, as of this moment. One that `is_expected` was not
    read but is as this process has left it: who rests on it has the database prove it."""

    pk: int
    name: str
    enabled: bool
    last_seen_at: datetime | None
    in_hand: Dispatch | None
    latest_done: datetime | None
    versions: Versions
    memory: Memory
    is_expected: bool = False

    @property
    def owners(self) -> list[int]:
        """The executors whose tasks are the user's: itself and its enabled groups."""
        return [pk for pk, _ in self.versions]

    def window(self, now: datetime) -> Window:
        """The window that the user is served from at `now`."""
        return window(
            now=now,
            latest_done=self.latest_done,
            hours=conf.DISPATCH_WINDOW_HOURS,
            lookback=conf.DISPATCH_LOOKBACK,
        )

    def holding(self, taken: Dispatch) -> Held:
        """What is remembered of a dispatch that was handed to the user as it stands here."""
        number, *of_open = (getattr(taken, name) for name in _OF_OPEN)
        return Held(number, tuple(of_open), self.versions, self.last_seen_at)


def check_user(uid: str) -> None:
    """Invalid for a group: those do not work themselves."""
    if names.is_group(uid):
        raise Invalid.field(
            "uid",
            _(
                "{name} is a group; a task is pulled by one of its users, so name a uid_….",
                name=uid[:80],
            ),
        )


def standing_of(pk: int) -> Standing:
    """The standing of an executor that is known to exist, whatever is remembered of it."""
    found = _read("e.id = %s", pk)
    if found is None:
        raise NotFound(_("There is no executor {number}.", number=pk))
    return found


def standing_by_name(uid: str, *, bound: Iterable[str] | None = None) -> Standing:
    """The standing of a user; NotFound when unknown or outside the names in `bound`."""
    check_user(uid)
    found = None
    if names.is_name(uid):
        remembered = memory.recall(uid)
        if remembered is not None:
            found = _read_on(remembered, uid)
        if found is None:
            found = _read("e.name = %s", uid)
    if found is not None and bound is not None:
        if not Executor.objects.within(bound).filter(pk=found.pk).exists():
            found = None
    if found is None:
        raise NotFound(_("There is no executor {name!r}.", name=uid[:80]))
    return found


def standing_of_holder(uid: str, number: int, *, bound: Iterable[str] | None = None) -> Standing:
    """The standing of a user that names its dispatch: expected, if that is the last one that this
    process has handed to the user, else as by name."""
    remembered = memory.recall(uid) if bound is None else None
    found = None if remembered is None else _expected(remembered, uid, number)
    return found or standing_by_name(uid, bound=bound)


def quiet_until(uid: str, now: datetime) -> datetime | None:
    """When something may be due again for the user of that name, if it is remembered that nothing
    is, and one read proves that nothing has changed; else None.

    None also when it is time to write that the user was seen: then it is read like others.
    """
    known = memory.recall(uid)
    quiet = None if known is None else known.quiet
    if known is None or quiet is None or now >= quiet.until:
        return None
    groups = known.groups or (None,)
    rows = fetch(_statement_of_quiet(len(groups)), [*groups, known.pk])
    if not rows:
        return None
    name, seen, in_hand, version, *_ = rows[0]
    if name != uid or in_hand is not None or _is_long_ago(instant(seen), now):
        return None
    versions = ((known.pk, version), *sorted(row[4:6] for row in rows if row[6]))
    return quiet.until if versions == quiet.versions else None


def note_seen(standing: Standing, now: datetime) -> Standing:
    """Write when the user last called, at most once a minute; returns how it stands then."""
    before = standing.last_seen_at
    if not _is_long_ago(before, now):
        return standing
    _write_seen(standing.pk, before, now)
    return replace(standing, last_seen_at=now)


@transactional
def _write_seen(pk: int, before: datetime | None, now: datetime) -> None:
    Executor.objects.filter(pk=pk, last_seen_at=before).update(last_seen_at=now)


def _is_long_ago(last: datetime | None, now: datetime) -> bool:
    return last is None or now - last >= _SEEN_EVERY


def _expected(known: Memory, uid: str, number: int) -> Standing | None:
    """As this process has left it with that dispatch; None where it is to be read."""
    held = known.held
    if held is None or held.number != number:
        return None
    # A group that was disabled then has no version here, by which it would be found enabled; and
    # every minute the user is read, to write that it was seen.
    if len(held.versions) <= len(known.groups) or _is_long_ago(held.last_seen_at, clock.now()):
        return None
    return Standing(
        pk=known.pk,
        name=uid,
        enabled=True,
        last_seen_at=held.last_seen_at,
        in_hand=_open_dispatch(known.pk, number, held.of_open),
        latest_done=known.latest_done,
        versions=held.versions,
        memory=known,
        is_expected=True,
    )


def _read(condition: str, value: Any) -> Standing | None:
    """Whatever there is to know of the user; None when there is no such."""
    now = clock.now()
    # A dispatch before the look-back has its occurrence there, too, and moves no window.
    oldest = ids.lowest_id_at(now - conf.DISPATCH_LOOKBACK - _A_DAY)
    rows = fetch(_statement(condition), [oldest, value])
    if not rows:
        return None
    pk, _, _, version, *_ = rows[0]
    groups = tuple({row[_GROUP] for row in rows if row[_GROUP] is not None})
    latest_done = instant(rows[0][_REST])
    found = Memory(pk, version, groups, _end_from(rows[0], now), latest_done)
    return _standing(rows, found)


def _read_on(known: Memory, uid: str) -> Standing | None:
    """What can have changed since then; None when too much has.

    Who joins or leaves a group gets another plan version, so the groups need not be looked for.
    """
    now = clock.now()
    groups = known.groups or (None,)
    rows = fetch(_statement_of_known(len(groups)), [*groups, known.since, uid, _MAX_ROWS])
    if not rows or len(rows) == _MAX_ROWS:
        return None
    pk, _, _, version, *_ = rows[0]
    if (pk, version) != (known.pk, known.version):
        return None
    ended = {row[_REST]: _ended(*row[_REST:]) for row in rows if row[_REST] is not None}
    return _standing(rows, known.after(ended.values(), since=_end_from(rows[0], now)))


def _end_from(row: Sequence[Any], now: datetime) -> int:
    """Dispatches that end after `now` have that id at least, by whichever clock it was made."""
    begun = ids.lowest_id_at(now - _CLOCKS_DIFFER)
    number = row[_OPEN]
    return begun if number is None else min(begun, number)


def _standing(rows: Sequence[Sequence[Any]], known: Memory) -> Standing:
    pk, name, enabled, version, seen, number, *of_open = rows[0][:_GROUP]
    groups = {tuple(row[_GROUP : _REST - 1]) for row in rows if row[_REST - 1]}
    return Standing(
        pk=pk,
        name=name,
        enabled=bool(enabled),
        last_seen_at=instant(seen),
        in_hand=None if number is None else _open_dispatch(pk, number, of_open),
        latest_done=known.latest_done,
        versions=((pk, version), *sorted(groups)),
        memory=known,
    )


_OF_USER = ("id", "name", "enabled", "plan_version", "last_seen_at")
_OF_OPEN = ("id", "source", "task", "occurrence", "occurrence_at", "round", "dispatched_at")
_OF_GROUP = ("id", "plan_version", "enabled")
_OF_ENDED = (
    *("id", "source", "task", "occurrence", "occurrence_at"),
    *("round", "state", "holds_stock", "finished_at"),
)
# Where they begin in a row, and what follows them.
_OPEN = len(_OF_USER)
_GROUP = _OPEN + len(_OF_OPEN)
_REST = _GROUP + len(_OF_GROUP)


def _named(alias: str, columns: Iterable[str]) -> str:
    return ", ".join(f"{alias}.{column}" for column in columns)


@functools.cache
def _user_and_open() -> tuple[str, str]:
    """The columns and the tables that whoever reads a standing begins with."""
    columns = ", ".join(
        [_named("e", _OF_USER), _named("d", _OF_OPEN), _named("g", _OF_GROUP)],
    )
    return columns, (
        f"{table(Executor)} e LEFT JOIN {table(Dispatch)} d ON {rare('d.open_for = e.id')}"
    )


@functools.cache
def _statement(condition: str) -> str:
    columns, tables = _user_and_open()
    return (
        f"SELECT {columns}, "
        f"(SELECT x.occurrence_at FROM {table(Dispatch)} x{force_index('dispatch_of_executor')} "
        "WHERE x.executor_id = e.id "
        "AND x.id >= %s AND x.state IN ('succeeded', 'failed') ORDER BY x.id DESC LIMIT 1) "
        f"FROM {tables} "
        f"LEFT JOIN {table(Membership)} m ON m.user_id = e.id "
        f"LEFT JOIN {table(Executor)} g ON g.id = m.group_id "
        f"WHERE {condition}"
    )


@functools.cache
def _statement_of_known(groups: int) -> str:
    columns, tables = _user_and_open()
    return (
        f"SELECT {columns}, {_named('x', _OF_ENDED)} FROM {tables} "
        f"LEFT JOIN {table(Executor)} g ON g.id IN ({placeholders(groups)}) "
        f"LEFT JOIN {table(Dispatch)} x{force_index('dispatch_of_executor')} "
        "ON x.executor_id = e.id AND x.id >= %s AND x.open_for IS NULL WHERE e.name = %s LIMIT %s"
    )


@functools.cache
def _statement_of_quiet(groups: int) -> str:
    """As little as proves that nothing has changed."""
    _, tables = _user_and_open()
    return (
        "SELECT e.name, e.last_seen_at, d.id, e.plan_version, g.id, g.plan_version, g.enabled "
        f"FROM {tables} LEFT JOIN {table(Executor)} g ON g.id IN ({placeholders(groups)}) "
        "WHERE e.id = %s"
    )


def _ended(
    number: int,
    source: str,
    task: int,
    occurrence: int,
    due_at: Any,
    earlier: int,
    state: str,
    holds_stock: Any,
    finished_at: Any,
) -> Ended:
    past = PastDispatch(
        number=number,
        rounds=earlier + 1,
        state=state,
        holds_stock=bool(holds_stock),
        finished_at=instant(finished_at),
    )
    return Ended(number, (source, task, occurrence), instant(due_at), past)


# In the order of the model; Django looks each of its columns up.
_READ_OF_OPEN = dict.fromkeys(
    (
        *("id", "executor_id", "open_for", "source", "task", "occurrence", "occurrence_at"),
        *("state", "round", "holds_stock", "dispatched_at", "finished_at"),
    )
)


def _open_dispatch(executor: int, number: int, values: Sequence[Any]) -> Dispatch:
    source, task, occurrence, due_at, earlier, dispatched_at = values
    row = [number, executor, executor, source, task, occurrence, instant(due_at)]
    row += [Dispatch.State.OPEN.value, earlier, True, instant(dispatched_at), None]
    return Dispatch.from_db(None, _READ_OF_OPEN, row)
