"""The earlier hand-outs of occurrences, read from stock and dispatches."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from django.db.models import Count

from apps.common.chunks import chunks
from apps.common.db import fetch, fetch_each, force_index, instant, placeholders, table
from apps.dispatch.models import Dispatch, Executor, Membership, Stock
from apps.dispatch.rules.past import Past
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import PastDispatch
from apps.dispatch.rules.queue import Candidate, Identity

# Occurrences in one statement.
_CHUNK = 512


def past_of(user: int, candidates: Iterable[Candidate]) -> Past:
    """The past of a user for the candidates: one row is read for each, however often it was handed
    out.

    Every occurrence that was handed out has a stock row, so that stock leads to the dispatches.
    """
    past = Past()
    for chunk in chunks(candidates, _CHUNK):
        for _user, *row in fetch(*_query(user, chunk)):
            _add(past, *row)
    return past


def pasts_of(known: Mapping[int, Sequence[Candidate]], in_all: Past) -> dict[int, Past]:
    """The pasts of users, each for its candidates; `in_all` has the facts that the users share."""
    pasts = {user: replace(in_all, latest={}) for user in known}
    asked = (
        _query(user, chunk)
        for user, some in known.items()
        for chunk in chunks((each for each in some if each.identity in in_all.handed), _CHUNK)
    )
    for user, *row in fetch_each(asked):
        _add(pasts[user], *row)
    return pasts


def _add(
    past: Past, source: str, task: int, occurrence: int, handed: int, number: int | None, *of: Any
) -> None:
    """Add the row of one occurrence, as the statement returns it."""
    identity = (source, task, occurrence)
    past.handed[identity] = handed
    if number is not None:
        earlier, state, holds, finished, earlier_counts = of
        past.latest[identity] = PastDispatch(
            number=number,
            rounds=earlier + 1,
            state=state,
            holds_stock=bool(holds),
            finished_at=instant(finished),
            earlier_counts=bool(earlier_counts),
        )


def _query(executor: int, candidates: Iterable[Candidate]) -> tuple[str, list[Any]]:
    where, parameters = _stock_condition(candidates)
    return _statement() + where, [*[executor] * 4, *parameters]


@functools.cache
def _statement() -> str:
    dispatches, rounds = table(Dispatch), force_index("dispatch_once_per_round")
    return (
        "SELECT %s, s.source, s.task, s.occurrence, s.handed, "
        "d.id, d.round, d.state, d.holds_stock, d.finished_at, "
        f"d.round > 0 AND EXISTS (SELECT 1 FROM {dispatches} w{rounds} WHERE w.executor_id = %s "
        "AND w.source = d.source AND w.task = d.task AND w.occurrence = d.occurrence "
        "AND w.round < d.round AND w.holds_stock) "
        f"FROM {table(Stock)} s LEFT JOIN {dispatches} d{rounds} ON d.executor_id = %s "
        "AND d.source = s.source AND d.task = s.task AND d.occurrence = s.occurrence "
        f"AND d.round = (SELECT MAX(x.round) FROM {dispatches} x{rounds} WHERE x.executor_id = %s "
        "AND x.source = s.source AND x.task = s.task AND x.occurrence = s.occurrence) "
        "WHERE "
    )


def handed_of(candidates: Iterable[Candidate]) -> dict[Identity, int]:
    """How often those occurrences are handed out; one without a stock row is left out."""
    handed: dict[Identity, int] = {}
    for chunk in chunks({each.identity: each for each in candidates}.values(), _CHUNK):
        where, parameters = _stock_condition(chunk)
        rows = fetch(
            f"SELECT source, task, occurrence, handed FROM {table(Stock)} s WHERE {where}",
            parameters,
        )
        handed |= {(source, task, occurrence): count for source, task, occurrence, count in rows}
    return handed


def _stock_condition(candidates: Iterable[Candidate]) -> tuple[str, list[Any]]:
    """The condition on the stock `s`, in a shape that its unique key serves."""
    tasks: dict[tuple[str, int], list[int]] = {}
    for candidate in candidates:
        tasks.setdefault((candidate.source, candidate.occurrence), []).append(candidate.task)
    parts, parameters = [], []
    for (source, occurrence), numbers in tasks.items():
        parts.append(
            f"(s.source = %s AND s.task IN ({placeholders(len(numbers))}) AND s.occurrence = %s)"
        )
        parameters += [source, *numbers, occurrence]
    return " OR ".join(parts), parameters


# --- of everybody ---------------------------------------------------------------------------------
def past_in_all(candidates: Sequence[Candidate], planned: Iterable[Planned] = ()) -> Past:
    """The past of the candidates for nobody in particular: the stock, and how many members have had
    an occurrence that goes to every member. The people are also those of tasks that are `planned`.
    """
    handed = handed_of(candidates)
    owners = {_owner_of_all(each) for each in chain[Planned | Candidate](planned, candidates)}
    to_all = {
        (each.identity, owner)
        for each in candidates
        if (owner := _owner_of_all(each)) and handed.get(each.identity)
    }
    return Past(handed=handed, people=members_of(owners), had=_had_by_members(sorted(to_all)))


def _owner_of_all(task: Planned | Candidate) -> int | None:
    """The executor whose members all get the task, once each; None for other tasks."""
    return task.owner if task.policy.dispatch_times is None else None


def members_of(owners: Iterable[int | None]) -> dict[int, int]:
    """How many people there are behind each executor: the members of a group, or the user."""
    known = {owner for owner in owners if owner is not None}
    if not known:
        return {}
    counted = Executor.objects.filter(pk__in=known).order_by().annotate(Count("members"))
    return {
        pk: 1 if kind == Executor.Kind.USER else count
        for pk, kind, count in counted.values_list("pk", "kind", "members__count")
    }


def _had_by_members(
    occurrences: Iterable[tuple[Identity, int]],
) -> dict[tuple[Identity, int], int]:
    """How many of the people behind the executor have each occurrence, or had it and it counts.

    Stock cannot say it: who had it may have left the group since, and somebody else joined.
    """
    select = _had_statement()
    parts = ((select, [*which, owner, owner, owner, *which]) for which, owner in occurrences)
    return {
        ((source, task, occurrence), owner): had
        for source, task, occurrence, owner, had in fetch_each(parts)
    }


@functools.cache
def _had_statement() -> str:
    return (
        "SELECT %s, %s, %s, %s, COUNT(DISTINCT p.id) FROM ("
        f"SELECT user_id AS id FROM {table(Membership)} WHERE group_id = %s UNION ALL "
        f"SELECT id FROM {table(Executor)} WHERE id = %s AND kind = '{Executor.Kind.USER.value}'"
        f") p JOIN {table(Dispatch)} d{force_index('dispatch_once_per_round')} "
        "ON d.executor_id = p.id AND d.source = %s AND d.task = %s AND d.occurrence = %s "
        "AND d.holds_stock"
    )
