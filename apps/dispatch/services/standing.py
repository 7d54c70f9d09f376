"""Who asks: a user executor with all that decides about its queue, in one read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from apps.common import clock, ids
from apps.common.conf import conf
from apps.common.db import fetch, forced, instant, rare, table
from apps.common.errors import Invalid, NotFound
from apps.common.sentences import sentence as _
from apps.dispatch.models import Dispatch, Executor, Membership
from apps.dispatch.rules import names
from apps.dispatch.rules.queue import Versions
from apps.dispatch.rules.window import Window, window

# Ids and dispatched_at are drawn one after the other.
_A_DAY = timedelta(days=1)


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
    its open dispatch, with what is needed to end it: the rest is read when it is asked for."""

    pk: int
    name: str
    enabled: bool
    last_seen_at: datetime | None
    in_hand: Dispatch | None
    latest_done: datetime | None
    versions: Versions

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
    """The standing of an executor that is known to exist."""
    found = _read("e.id = %s", pk)
    if found is None:
        raise NotFound(_("There is no executor {number}.", number=pk))
    return found


def standing_by_name(uid: str, *, bound: Iterable[str] | None = None) -> Standing:
    """The standing of a user; NotFound when unknown or outside the names in `bound`."""
    check_user(uid)
    found = _read("e.name = %s", uid) if names.is_name(uid) else None
    if found is not None and bound is not None:
        if not Executor.objects.within(bound).filter(pk=found.pk).exists():
            found = None
    if found is None:
        raise NotFound(_("There is no executor {name!r}.", name=uid[:80]))
    return found


def _read(condition: str, value: Any) -> Standing | None:
    # A dispatch before the look-back has its occurrence there, too, and moves no window.
    since = ids.lowest_id_at(clock.now() - conf.DISPATCH_LOOKBACK - _A_DAY)
    rows = fetch(_statement(condition), [since, value])
    if not rows:
        return None
    pk, name, enabled, version, seen, latest, number, *of_open, _, _ = rows[0]
    groups = sorted((group, version) for *_, group, version in rows if group is not None)
    return Standing(
        pk=pk,
        name=name,
        enabled=bool(enabled),
        last_seen_at=instant(seen),
        in_hand=None if number is None else _open_dispatch(pk, number, of_open),
        latest_done=instant(latest),
        versions=((pk, version), *groups),
    )


@functools.cache
def _statement(condition: str) -> str:
    people, belongs, dispatches = table(Executor), table(Membership), table(Dispatch)
    return (
        "SELECT e.id, e.name, e.enabled, e.plan_version, e.last_seen_at, "  # noqa: S608
        f"(SELECT x.occurrence_at FROM {dispatches} x{forced('dispatch_of_executor')} "
        "WHERE x.executor_id = e.id "
        "AND x.id >= %s AND x.state IN ('succeeded', 'failed') ORDER BY x.id DESC LIMIT 1), "
        "d.id, d.source, d.task, d.occurrence, d.occurrence_at, d.round, d.dispatched_at, "
        f"g.id, g.plan_version FROM {people} e "
        f"LEFT JOIN {dispatches} d ON {rare('d.open_for = e.id')} "
        f"LEFT JOIN {belongs} m ON m.user_id = e.id "
        f"LEFT JOIN {people} g ON g.id = m.group_id AND g.enabled "
        f"WHERE {condition}"
    )


_READ_OF_OPEN = (
    *("id", "executor_id", "open_for", "source", "task", "occurrence", "occurrence_at"),
    *("state", "round", "holds_stock", "dispatched_at", "finished_at"),
)


def _open_dispatch(executor: int, number: int, values: Sequence[Any]) -> Dispatch:
    source, task, occurrence, due_at, earlier, dispatched_at = values
    row = [number, executor, executor, source, task, occurrence, instant(due_at)]
    row += [Dispatch.State.OPEN.value, earlier, True, instant(dispatched_at), None]
    return Dispatch.from_db(None, _READ_OF_OPEN, row)
