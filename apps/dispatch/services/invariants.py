"""The promises of dispatch, checked on the rows as they are; they only read."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.common.db import fetch, placeholders, table
from apps.common.invariants import (
    APART_SECONDS,
    MAX_FOUND,
    Breach,
    Check,
    Looked,
    RowRule,
    look_at_rows,
    say,
    seconds_from,
)
from apps.dispatch.models import TASK_MODELS, Dispatch, Source, Stock
from apps.dispatch.rules import plan, policy
from apps.journal.models import JournalEntry
from apps.journal.models import Source as JournalSource

# Two sums for each of so many groups of occurrences stand for a million counts: where they agree,
# the counts do. The second one is weighted, so that no two errors make each other up.
_GROUPS = 4096
_GROUP = (
    "((task %% 4093) * 31 + occurrence %% 4093 + "
    f"CASE source WHEN '{plan.ONCE}' THEN 0 ELSE 1777 END) %% {_GROUPS}"
)
_WEIGHT = "((task %% 9973) * 7 + (occurrence %% 9967) * 13 + 1)"
# More groups than that are not looked into at once.
_MAX_GROUPS = 200

_OPEN = f"state = '{policy.OPEN}'"
_STATES = ", ".join(f"'{state.value}'" for state in Dispatch.State)
_ALWAYS_HOLD = f"'{policy.OPEN}', '{policy.SUCCEEDED}'"
_NEVER_HOLD = f"'{policy.RELEASED}', '{policy.CANCELLED}'"
_EPOCH = "'1970-01-01 00:00:00'"


def _stocks(_recent: int) -> Looked:
    """I1: each stock counts the dispatches that hold it, and each of those has its stock."""
    stocks, dispatches = table(Stock), table(Dispatch)
    [(rows,)] = fetch(f"SELECT COUNT(*) FROM {stocks}")
    groups = fetch(
        "SELECT g FROM ("
        f"SELECT {_GROUP} AS g, SUM(handed) AS h, SUM(handed * {_WEIGHT}) AS hw, 0 AS d, 0 AS dw "
        f"FROM {stocks} GROUP BY 1 UNION ALL "
        f"SELECT {_GROUP}, 0, 0, COUNT(*), SUM({_WEIGHT}) FROM {dispatches} WHERE holds_stock "
        "GROUP BY 1) x GROUP BY g HAVING SUM(h) <> SUM(d) OR SUM(hw) <> SUM(dw) "
        f"ORDER BY g LIMIT {_MAX_GROUPS + 1}"
    )
    if not groups:
        return Looked(rows)
    inside = [row[0] for row in groups[:_MAX_GROUPS]]
    within = f"{_GROUP} IN ({placeholders(len(inside))})"
    found = fetch(
        "SELECT source, task, occurrence, SUM(h), SUM(d) FROM ("
        f"SELECT source, task, occurrence, handed AS h, 0 AS d FROM {stocks} WHERE {within} "
        f"UNION ALL SELECT source, task, occurrence, 0, 1 FROM {dispatches} "
        f"WHERE holds_stock AND {within}) x "
        "GROUP BY source, task, occurrence HAVING SUM(h) <> SUM(d) "
        f"ORDER BY source, task, occurrence LIMIT {MAX_FOUND + 1}",
        [*inside, *inside],
    )
    breaches = [
        Breach(
            "I1",
            f"stock {source}:{task}/{occurrence}",
            say(
                _("handed %(handed)d, but %(count)d dispatches hold stock"),
                {"handed": handed, "count": count},
            ),
        )
        for source, task, occurrence, handed, count in found[:MAX_FOUND]
    ]
    return Looked(rows, breaches, len(groups) > _MAX_GROUPS or len(found) > MAX_FOUND)


def _limits(_recent: int) -> Looked:
    """I1: no more is handed out than planned, of tasks whose plan nobody has changed since."""
    breaches: list[Breach] = []
    rows, cut = 0, False
    for source, model in TASK_MODELS.items():
        [(count,)] = fetch(f"SELECT COUNT(*) FROM {table(model)}")
        rows += count
        found = fetch(
            "SELECT s.task, s.occurrence, s.handed, t.dispatch_times "
            f"FROM {table(model)} t JOIN {table(Stock)} s ON s.source = %s AND s.task = t.id "
            "WHERE t.version = 1 AND s.handed > t.dispatch_times "
            f"ORDER BY s.task, s.occurrence LIMIT {MAX_FOUND + 1}",
            [source],
        )
        cut = cut or len(found) > MAX_FOUND
        breaches += [
            Breach(
                "I1",
                f"stock {source}:{task}/{occurrence}",
                say(
                    _("handed %(handed)d of %(times)d dispatch times"),
                    {"handed": handed, "times": times},
                ),
            )
            for task, occurrence, handed, times in found[:MAX_FOUND]
        ]
    return Looked(rows, breaches, cut)


def _executors(_recent: int) -> Looked:
    """I5: at most one open dispatch for each executor."""
    # Every deadline is later, and `+ 0` is no column: only so does SQLite take the small index of
    # the open ones, and not that of all executors.
    opened = f"{table(Dispatch)} WHERE {_OPEN} AND deadline_at > {_EPOCH}"
    [(rows,)] = fetch(f"SELECT COUNT(*) FROM {opened}")
    found = fetch(
        f"SELECT executor_id + 0, COUNT(*) FROM {opened} GROUP BY 1 "
        f"HAVING COUNT(*) > 1 ORDER BY 1 LIMIT {MAX_FOUND + 1}"
    )
    breaches = [
        Breach("I5", f"executor {pk}", say(_("has %(count)d open dispatches"), {"count": count}))
        for pk, count in found[:MAX_FOUND]
    ]
    return Looked(rows, breaches, len(found) > MAX_FOUND)


def _dispatches(_recent: int) -> Looked:
    """I1, I5, I17, I19: what the columns of a dispatch say of each other."""
    second = seconds_from(_EPOCH, "occurrence_at")
    rules = [
        RowRule(
            "I1",
            f"(state IN ({_ALWAYS_HOLD}) AND NOT holds_stock) "
            f"OR (state IN ({_NEVER_HOLD}) AND holds_stock)",
            _("is %(state)s, but holds_stock is %(holds_stock)s"),
            ("state", "holds_stock"),
        ),
        RowRule(
            "I5",
            f"{_OPEN} AND (open_for IS NULL OR open_for <> executor_id)",
            _("is open, but does not keep executor %(executor_id)s from getting another"),
            ("executor_id",),
        ),
        RowRule(
            "I5",
            f"NOT ({_OPEN}) AND open_for IS NOT NULL",
            _("has ended as %(state)s, but keeps executor %(open_for)s from getting another"),
            ("state", "open_for"),
        ),
        RowRule(
            "I17",
            f"state NOT IN ({_STATES})",
            _("has the state %(state)s, which there is not"),
            ("state",),
        ),
        RowRule(
            "I17",
            f"({_OPEN}) <> (finished_at IS NULL)",
            _("is %(state)s, but its end is at %(finished_at)s"),
            ("state", "finished_at"),
        ),
        RowRule(
            "I17",
            "finished_at < dispatched_at AND "
            f"{seconds_from('finished_at', 'dispatched_at')} > {APART_SECONDS}",
            _("ended at %(finished_at)s, before it was handed out at %(dispatched_at)s"),
            ("finished_at", "dispatched_at"),
        ),
        RowRule(
            "I19",
            f"(source = '{Source.ONCE.value}' AND occurrence <> {plan.ONLY}) "
            f"OR (source = '{Source.ROTATE.value}' AND occurrence <> {second})",
            _("is occurrence %(occurrence)s of a %(source)s task, but due at %(occurrence_at)s"),
            ("occurrence", "source", "occurrence_at"),
        ),
    ]
    return look_at_rows(Dispatch, rules, "dispatch")


def _told(recent: int) -> Looked:
    """I17, I53: the journal tells once of each hand-out, and once of its end as it ended."""
    found = fetch(
        "SELECT * FROM (SELECT d.id, d.state, "
        "SUM(CASE WHEN e.event = 'handed_out' THEN 1 ELSE 0 END) AS begun, "
        "SUM(CASE WHEN e.from_state = %s THEN 1 ELSE 0 END) AS ended, "
        "SUM(CASE WHEN e.from_state = %s AND e.to_state = d.state THEN 1 ELSE 0 END) AS same "
        f"FROM (SELECT id, state FROM {table(Dispatch)} ORDER BY id DESC LIMIT %s) d "
        f"LEFT JOIN {table(JournalEntry)} e ON e.source = %s AND e.subject_id = d.id "
        "GROUP BY d.id, d.state) x WHERE begun <> 1 "
        "OR ended <> CASE WHEN state = %s THEN 0 ELSE 1 END OR same <> ended "
        f"ORDER BY id LIMIT {MAX_FOUND + 1}",
        [policy.OPEN, policy.OPEN, recent, JournalSource.DISPATCH.value, policy.OPEN],
    )
    breaches = []
    for number, state, begun, ended, same in found[:MAX_FOUND]:
        subject = f"dispatch {number}"
        if begun != 1:
            text = say(_("the journal tells of %(count)d hand-outs"), {"count": begun})
            breaches.append(Breach("I17", subject, text))
        if ended != (state != policy.OPEN):
            words = _("is %(state)s, but the journal tells of %(count)d ends")
            text = say(words, {"state": state, "count": ended})
            breaches.append(Breach("I53", subject, text))
        elif same != ended:
            text = say(_("is %(state)s, but the journal tells of another end"), {"state": state})
            breaches.append(Breach("I53", subject, text))
    rows = fetch(
        f"SELECT COUNT(*) FROM (SELECT id FROM {table(Dispatch)} LIMIT %s) d",
        [recent],
    )[0][0]
    return Looked(rows, breaches, len(found) > MAX_FOUND)


CHECKS = (
    Check("stocks", ("I1",), _("Stock counts the dispatches that hold it"), _stocks),
    Check("tasks", ("I1",), _("No more is handed out than planned"), _limits),
    Check("open dispatches", ("I5",), _("One open dispatch for each executor"), _executors),
    Check("dispatches", ("I1", "I5", "I17", "I19"), _("Dispatches row by row"), _dispatches),
    Check(
        "dispatches in the journal",
        ("I17", "I53"),
        _("The newest dispatches and what the journal tells of them"),
        _told,
        recent=True,
    ),
)
