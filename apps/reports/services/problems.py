"""Remarks of people about problems: somebody has seen it, it may wait for a time, or it is solved;
and the return of solved problems."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common import clock, tidy
from apps.common.db import transactional
from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.common.messages import packed
from apps.journal import services as journal
from apps.reports.models import Problem
from apps.reports.services import causes

# The kind of problems that are causes of failures; their keys are those of the errors.
ERROR = "error"
_NOT_BY_HAND = _(
    "It is over when the platform does not find it any more; only causes of failures are solved by "
    "hand."
)
KEPT = timedelta(days=90)
_AT_ONCE = 200


def by_name(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Problem]:
    """The remarks on these problems, by kind and key; at most _AT_ONCE problems are read."""
    wanted = sorted(set(names))[:_AT_ONCE]
    if not wanted:
        return {}
    rows = Problem.objects.filter(key__in=[key for _kind, key in wanted])
    return {(row.kind, row.key): row for row in rows}


def forget(now: datetime) -> int:
    """Remove the first problems without a remark or return for KEPT; returns the number removed."""
    return tidy.remove(Problem.objects.filter(last_seen__lt=now - KEPT).order_by("last_seen"))


class Remark(NamedTuple):
    """What somebody says of a problem, and what the problem is called, for the journal."""

    actor: str
    title: str
    note: str = ""


def mark_seen(kind: str, key: str, said: Remark) -> Problem:
    """Record that somebody has seen the problem, which stays in sight."""
    return _say(kind, key, Problem.State.SEEN, said, until=None)


def snooze(kind: str, key: str, said: Remark, *, time: timedelta) -> Problem:
    """Record that nobody needs to look at the problem for this time."""
    return _say(kind, key, Problem.State.SNOOZED, said, until=clock.now() + time)


def solve(kind: str, key: str, said: Remark) -> Problem:
    """Record that somebody has solved the problem, until it comes back; Invalid if it is no cause
    of failures."""
    if kind != ERROR:
        raise Invalid(_NOT_BY_HAND)
    return _say(kind, key, Problem.State.SOLVED, said, until=None)


def solved() -> list[Problem]:
    """The causes that somebody has solved, the newest first."""
    rows = Problem.objects.filter(kind=ERROR, state=Problem.State.SOLVED)
    return list(rows.order_by("-changed_at", "-pk")[:_AT_ONCE])


def reopen(now: datetime) -> int:
    """Open the solved causes again that have come back; returns their number. Each keeps who had
    solved it, and when."""
    known = {row.key: row for row in solved()}
    count = 0
    for key in causes.came_back({row.key: row.changed_at for row in known.values()}):
        count += _reopen(known[key], now)
    return count


@transactional
def _reopen(row: Problem, now: datetime) -> int:
    same = Problem.objects.filter(pk=row.pk, state=row.state, changed_at=row.changed_at)
    changed = same.update(state=Problem.State.NEW, last_seen=now)
    if changed:
        said = {"kind": row.kind, "key": row.key}
        journal.note("problem_back", said, at=now, actor="reports")
    return changed


@transactional
def _say(kind: str, key: str, state: str, said: Remark, *, until: datetime | None) -> Problem:
    now = clock.now()
    values = {
        "state": state,
        "by": said.actor[:160],
        "note": said.note[: Problem.MAX_NOTE],
        "until": until,
        "changed_at": now,
        "last_seen": now,
    }
    row, _is_new = Problem.objects.update_or_create(
        kind=kind, key=key, defaults=values, create_defaults={**values, "first_seen": now}
    )
    data = {"kind": kind, "key": key, "problem": packed(said.title)}
    data |= {"until": until.isoformat()} if until else {}
    journal.note(f"problem_{state}", data, at=now, actor=said.actor, reason=said.note)
    return row
