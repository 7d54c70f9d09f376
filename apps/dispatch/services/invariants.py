"""Audit of dispatch: its invariants as SQL over the rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.audit import (
    APART,
    MAX_FOUND,
    Breach,
    Check,
    CheckResult,
    RowRule,
    check_rows,
    count_of,
    say,
    seconds_from,
)
from apps.common.db import fetch, instant, table
from apps.dispatch.conf import conf
from apps.dispatch.models import (
    TASK_MODELS,
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Source,
    Stock,
)
from apps.dispatch.rules import plan, policy
from apps.dispatch.rules import retention as rules
from apps.journal.models import JournalEntry
from apps.journal.models import Source as JournalSource
from apps.journal.services.retention import complete_from

_OPEN = f"state = '{policy.OPEN}'"
_STATES = ", ".join(f"'{state.value}'" for state in Dispatch.State)
_ALWAYS_HOLD = f"'{policy.OPEN}', '{policy.SUCCEEDED}'"
_NEVER_HOLD = f"'{policy.RELEASED}', '{policy.CANCELLED}'"
_EPOCH = "'1970-01-01 00:00:00'"


def _quotas(_recent: int) -> CheckResult:
    """I1: `handed` of each quota is the number of the dispatches that count to it."""
    # MariaDB sorts millions of groups faster than it keeps them in a temporary table.
    select = "SELECT SQL_BIG_RESULT" if connection.vendor == "mysql" else "SELECT"
    occurrence = "source, task, occurrence"
    found = fetch(
        f"{select} {occurrence}, SUM(handed), SUM(held) FROM ("
        f"SELECT {occurrence}, handed, 0 AS held FROM {table(Stock)} UNION ALL "
        f"{select} {occurrence}, 0, COUNT(*) FROM {table(Dispatch)} WHERE holds_stock "
        f"GROUP BY {occurrence}) x "
        f"GROUP BY {occurrence} HAVING SUM(handed) <> SUM(held) "
        f"ORDER BY {occurrence} LIMIT {MAX_FOUND + 1}"
    )
    words = _("handed %(handed)d, but %(count)d dispatches count to it")
    breaches = [
        Breach(
            "I1",
            f"quota {source}:{task}/{occurrence}",
            say(words, {"handed": handed, "count": count}),
        )
        for source, task, occurrence, handed, count in found[:MAX_FOUND]
    ]
    return CheckResult(count_of(Stock), breaches, len(found) > MAX_FOUND)


def _limits(_recent: int) -> CheckResult:
    """I1: no more is handed out than planned, of tasks whose plan has not changed since."""
    words = _("handed %(handed)d of %(times)d dispatch times")
    breaches: list[Breach] = []
    rows, cut = 0, False
    for source, model in TASK_MODELS.items():
        rows += count_of(model)
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
                f"quota {source}:{task}/{occurrence}",
                say(words, {"handed": handed, "times": times}),
            )
            for task, occurrence, handed, times in found[:MAX_FOUND]
        ]
    return CheckResult(rows, breaches, cut)


def _executors(_recent: int) -> CheckResult:
    """I5: each executor has at most one open dispatch."""
    # SQLite takes the small index of open dispatches only with a condition on the deadline, which
    # every one meets, and with `+ 0`, which keeps it from the index of executors.
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
    return CheckResult(rows, breaches, len(found) > MAX_FOUND)


def _tasks_of_open(_recent: int) -> CheckResult:
    """I11: the task of each open dispatch exists, because its policy decides how that expires."""
    words = _("is open, but its task %(task)s is gone, so it cannot expire; cancel it")
    opened = f"{_OPEN} AND deadline_at > {_EPOCH}"
    breaches: list[Breach] = []
    cut = False
    for source, model in TASK_MODELS.items():
        found = fetch(
            f"SELECT d.id, d.task FROM {table(Dispatch)} d LEFT JOIN {table(model)} t "
            f"ON t.id = d.task WHERE {opened} AND d.source = %s AND t.id IS NULL "
            f"ORDER BY d.id LIMIT {MAX_FOUND + 1}",
            [source],
        )
        cut = cut or len(found) > MAX_FOUND
        breaches += [
            Breach("I11", f"dispatch {number}", say(words, {"task": f"{source}:{task}"}))
            for number, task in found[:MAX_FOUND]
        ]
    [(rows,)] = fetch(f"SELECT COUNT(*) FROM {table(Dispatch)} WHERE {opened}")
    return CheckResult(rows, breaches, cut)


def _dispatches(_recent: int) -> CheckResult:
    """I1, I5, I17, I19: the columns of each dispatch agree with each other."""
    second = seconds_from(_EPOCH, "occurrence_at")
    # Then its place has gone over to that round.
    same = (f"n.{name} = {table(Dispatch)}.{name}" for name in ("source", "task", "occurrence"))
    is_asked_again = (
        f"EXISTS (SELECT 1 FROM {table(Dispatch)} n WHERE n.executor_id = {table(Dispatch)}."
        f"executor_id AND {' AND '.join(same)} AND n.round > {table(Dispatch)}.round)"
    )
    rules = [
        RowRule(
            "I1",
            f"(state IN ({_ALWAYS_HOLD}) AND NOT holds_stock "
            f"AND NOT (state = '{policy.SUCCEEDED}' AND {is_asked_again})) "
            f"OR (state IN ({_NEVER_HOLD}) AND holds_stock)",
            _("is %(state)s, but counts to the quota: %(holds_stock)s"),
            ("state", "holds_stock"),
        ),
        RowRule(
            "I5",
            f"{_OPEN} AND (open_for IS NULL OR open_for <> executor_id)",
            _("is open, but does not keep person %(executor_id)s from getting another"),
            ("executor_id",),
        ),
        RowRule(
            "I5",
            f"NOT ({_OPEN}) AND open_for IS NOT NULL",
            _("has ended as %(state)s, but keeps person %(open_for)s from getting another"),
            ("state", "open_for"),
        ),
        RowRule(
            "I17",
            f"state NOT IN ({_STATES})",
            _("has the unknown state %(state)s"),
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
            f"{seconds_from('finished_at', 'dispatched_at')} > {APART.seconds}",
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
    return check_rows(Dispatch, rules, "dispatch")


def _in_journal(recent: int) -> CheckResult:
    """I17, I53: the journal has one entry of each hand-out and one of its end, until it forgets."""
    found = fetch(
        "SELECT * FROM (SELECT d.id, d.state, "
        "SUM(CASE WHEN e.event = 'handed_out' THEN 1 ELSE 0 END) AS begun, "
        "SUM(CASE WHEN e.from_state = %s THEN 1 ELSE 0 END) AS ended, "
        "SUM(CASE WHEN e.from_state = %s AND e.to_state = d.state THEN 1 ELSE 0 END) AS same "
        f"FROM (SELECT id, state FROM {table(Dispatch)} WHERE id >= %s "
        "ORDER BY id DESC LIMIT %s) d "
        f"LEFT JOIN {table(JournalEntry)} e ON e.source = %s AND e.subject_id = d.id "
        "GROUP BY d.id, d.state) x WHERE begun <> 1 "
        "OR ended <> CASE WHEN state = %s THEN 0 ELSE 1 END OR same <> ended "
        f"ORDER BY id LIMIT {MAX_FOUND + 1}",
        [
            *(policy.OPEN, policy.OPEN, complete_from(), recent),
            *(JournalSource.DISPATCH.value, policy.OPEN),
        ],
    )
    breaches = []
    for number, state, begun, ended, same in found[:MAX_FOUND]:
        subject = f"dispatch {number}"
        if begun != 1:
            text = say(_("has %(count)d hand-outs in the journal"), {"count": begun})
            breaches.append(Breach("I17", subject, text))
        if ended != (state != policy.OPEN):
            words = _("is %(state)s, but has %(count)d ends in the journal")
            text = say(words, {"state": state, "count": ended})
            breaches.append(Breach("I53", subject, text))
        elif same != ended:
            text = say(_("is %(state)s, but has another end in the journal"), {"state": state})
            breaches.append(Breach("I53", subject, text))
    return CheckResult(count_of(Dispatch, recent), breaches, len(found) > MAX_FOUND)


def _ends_are_kept(recent: int) -> CheckResult:
    """I63: the dispatches that the newest entries say have ended, and the tasks that they name, are
    live or archived, not both, until forgotten."""
    newest = (
        "(SELECT source, subject_id, type_or_task, from_state, to_state, at "
        f"FROM {table(JournalEntry)} ORDER BY id DESC LIMIT %s)"
    )
    retention = conf.DISPATCH_RETENTION
    breaches = _kept_rows(
        "dispatch",
        f"(SELECT subject_id, MAX(at) AS since FROM {newest} n WHERE source = %s "
        "AND from_state = %s AND to_state <> %s GROUP BY subject_id)",
        [recent, JournalSource.DISPATCH.value, policy.OPEN, policy.OPEN],
        f"LEFT JOIN {table(Dispatch)} l ON l.id = c.subject_id "
        f"LEFT JOIN {table(ArchivedDispatch)} a ON a.id = c.subject_id",
        clock.now() - retention if retention else None,
    )
    before = None
    if conf.TASK_RETENTION:
        before = rules.archived_before(
            clock.now(), retention=conf.TASK_RETENTION, archive_after=conf.TASK_ARCHIVE_AFTER
        )
    for source, model in TASK_MODELS.items():
        breaches += _kept_rows(
            f"{source} task",
            f"(SELECT subject_id, MAX(at) AS since FROM {newest} n WHERE source = %s "
            "AND type_or_task LIKE %s GROUP BY subject_id)",
            [recent, JournalSource.PLAN.value, f"{source}:%"],
            f"LEFT JOIN {table(model)} l ON l.id = c.subject_id "
            f"LEFT JOIN {table(ArchivedTask)} a ON a.source = '{source}' AND a.task = c.subject_id",
            before,
        )
    return CheckResult(
        count_of(JournalEntry, recent), breaches[:MAX_FOUND], len(breaches) > MAX_FOUND
    )


def _kept_rows(
    kind: str, named: str, values: list[Any], joins: str, before: datetime | None
) -> list[Breach]:
    """The breaches among what the journal names; what it named before the instant may be gone."""
    rows = fetch(
        f"SELECT c.subject_id, c.since, l.id FROM {named} c {joins} "
        "WHERE (l.id IS NULL) = (a.id IS NULL) ORDER BY c.subject_id",
        values,
    )
    breaches = []
    for number, since, live in rows:
        if live is not None:
            text = say(_("is among the live ones and the older ones"), {})
            breaches.append(Breach("I63", f"{kind} {number}", text))
        elif before is None or instant(since) >= before:
            words = _("is kept nowhere, though the journal names it at %(at)s")
            text = say(words, {"at": instant(since)})
            breaches.append(Breach("I63", f"{kind} {number}", text))
    return breaches


CHECKS = (
    Check(
        "quotas",
        ("I1",),
        _("Of each quota as many are handed out as dispatches count to it"),
        _quotas,
    ),
    Check("tasks", ("I1",), _("No task is handed out more often than planned"), _limits),
    Check("open dispatches", ("I5",), _("Each person has at most one open dispatch"), _executors),
    Check(
        "tasks of open dispatches",
        ("I11",),
        _("The task of each open dispatch exists"),
        _tasks_of_open,
    ),
    Check(
        "dispatches",
        ("I1", "I5", "I17", "I19"),
        _("The columns of each dispatch agree with each other"),
        _dispatches,
    ),
    Check(
        "dispatches in the journal",
        ("I17", "I53"),
        _("The newest dispatches have one hand-out and at most one end in the journal"),
        _in_journal,
        recent=True,
    ),
    Check(
        "ends of dispatches and tasks",
        ("I63",),
        _("The newest ended dispatches and tasks are live or older ones, never both"),
        _ends_are_kept,
        recent=True,
    ),
)
