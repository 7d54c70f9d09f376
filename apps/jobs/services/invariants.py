"""Audit of jobs: their invariants as SQL over rows and journal."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.utils.translation import gettext_lazy as _

from apps.common import clock, ids
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
)
from apps.common.db import fetch, instant, table
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob, Job, JobLog
from apps.jobs.rules import history
from apps.jobs.rules import transitions as t
from apps.jobs.services import key_invariants
from apps.jobs.services.retention import Horizons
from apps.journal.models import JournalEntry, Source
from apps.journal.services.retention import complete_from

# The rescue must have run this long after the end of a lease, plus its own period.
RESCUED_WITHIN = timedelta(minutes=1)


def _listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


_RUNNING = f"status = '{t.RUNNING}'"
_FINAL = f"status IN ({_listed(t.FINAL)})"
_WAITING = f"status IN ({_listed(t.WAITING)})"
_OPEN = f"status IN ({_listed(t.OPEN)})"

_STATES = [
    RowRule(
        "I26",
        f"status NOT IN ({_listed(t.STATUSES)})",
        _("has the unknown status %(status)s"),
        ("status",),
    ),
    RowRule(
        "I26",
        f"({_FINAL}) <> (finished_at IS NOT NULL)",
        _("is %(status)s, but its end is at %(finished_at)s"),
        ("status", "finished_at"),
    ),
    RowRule(
        "I27",
        f"{_RUNNING} AND (lease_until IS NULL OR hard_end_at IS NULL OR held_at IS NULL "
        "OR lease_token = '' OR worker = '')",
        _(
            "is running, but lacks one of: lease until %(lease_until)s, deadline %(hard_end_at)s, "
            "held %(held_at)s, a token, worker '%(worker)s'"
        ),
        ("lease_until", "hard_end_at", "held_at", "worker"),
    ),
    RowRule(
        "I27",
        f"{_RUNNING} AND lease_until > hard_end_at",
        _("has a lease until %(lease_until)s, past its deadline at %(hard_end_at)s"),
        ("lease_until", "hard_end_at"),
    ),
    RowRule(
        "I27",
        f"NOT ({_RUNNING}) AND (lease_until IS NOT NULL OR hard_end_at IS NOT NULL)",
        _("is %(status)s, but has a lease until %(lease_until)s"),
        ("status", "lease_until"),
    ),
    RowRule(
        "I28",
        "holds < attempts",
        _("has %(attempts)d tries, but was held %(holds)d times"),
        ("attempts", "holds"),
    ),
    RowRule(
        "I28",
        f"({_WAITING} AND attempts >= max_attempts) "
        f"OR ({_RUNNING} AND (attempts > max_attempts OR attempts = 0))",
        _("is %(status)s with %(attempts)d of %(max_attempts)d tries used"),
        ("status", "attempts", "max_attempts"),
    ),
    RowRule(
        "I35",
        f"{_FINAL} AND unique_key IS NOT NULL AND unique_for IS NULL",
        _("is %(status)s, but its key still blocks other jobs"),
        ("status",),
    ),
    RowRule(
        "I69",
        f"status = '{t.BLOCKED}' AND limit_id IS NULL",
        _("is blocked, but counts for no key"),
        ("status",),
    ),
    RowRule(
        "I39",
        "version < 1 + holds",
        _("has version %(version)d after %(holds)d tries"),
        ("version", "holds"),
    ),
]


def _jobs(_recent: int) -> CheckResult:
    """I26–I29, I35, I39, I69: the columns of each job agree with each other and with the time."""
    whole = "CONCAT(type, '|', `key`)" if connection.vendor == "mysql" else "type || '|' || key"
    rescued = clock.now() - RESCUED_WITHIN - timedelta(seconds=conf.JOB_RESCUE_SECONDS)
    rules = [
        *_STATES,
        RowRule(
            "I29",
            f"{_RUNNING} AND lease_until < %s",
            _("is still running, but its lease ended at %(lease_until)s"),
            ("lease_until",),
            (rescued,),
        ),
        RowRule(
            "I35",
            f"{_OPEN} AND ((is_unique AND (unique_key IS NULL OR unique_key <> {whole})) "
            "OR (NOT is_unique AND unique_key IS NOT NULL))",
            _("is %(status)s, unique: %(is_unique)s, but kept unique by '%(unique_key)s'"),
            ("status", "is_unique", "unique_key"),
        ),
    ]
    return check_rows(Job, rules, "job")


def _in_journal(recent: int) -> CheckResult:
    """I28, I39, I53: the newest jobs, and those of the newest entries, agree with the journal.

    Each hold has one end there, unless it is under way. Each change raised the version by one; only
    promotions and admissions have no entry. Jobs that are older than the journal is kept are left
    out.
    """
    jobs, entries = table(Job), table(JournalEntry)
    moved = f"e.from_state <> '' AND e.event <> '{history.STALE}'"
    # Whether other entries without a change of state raised the version is not known here.
    surely = "(e.from_state <> e.to_state OR e.event IN ('edited', 'run_now', 'cancel_requested'))"
    found = fetch(
        "SELECT * FROM (SELECT j.id, j.status, j.holds, j.version, "
        "CASE WHEN j.limit_id IS NULL THEN 1 ELSE 2 END AS steps, "
        "SUM(CASE WHEN e.from_state = %s AND e.to_state <> %s THEN 1 ELSE 0 END) AS ends, "
        f"SUM(CASE WHEN {moved} AND {surely} THEN 1 ELSE 0 END) AS moves, "
        f"SUM(CASE WHEN {moved} AND NOT {surely} THEN 1 ELSE 0 END) AS others, "
        "SUM(CASE WHEN e.to_state IN (%s, %s) THEN 1 ELSE 0 END) AS put_off, "
        "SUM(CASE WHEN e.to_state = j.status AND e.from_state <> e.to_state "
        "THEN 1 ELSE 0 END) AS same "
        "FROM (SELECT id FROM "
        f"(SELECT id FROM {jobs} ORDER BY id DESC LIMIT %s) a UNION SELECT subject_id FROM "
        f"(SELECT source, subject_id FROM {entries} ORDER BY id DESC LIMIT %s) b "
        "WHERE source = %s) c "
        f"JOIN {jobs} j ON j.id = c.id "
        f"LEFT JOIN {entries} e ON e.source = %s AND e.subject_id = c.id "
        "WHERE j.id >= %s GROUP BY j.id, j.status, j.holds, j.version, j.limit_id) x WHERE "
        "ends + CASE WHEN status = %s THEN 1 ELSE 0 END <> holds "
        "OR version < 1 + holds + moves "
        "OR version > 1 + steps + holds + moves + others + put_off * steps "
        f"OR ({_FINAL} AND same = 0) ORDER BY id LIMIT {MAX_FOUND + 1}",
        [
            *(t.RUNNING, t.RUNNING, t.SCHEDULED, t.BLOCKED, recent, recent),
            *(Source.JOB.value, Source.JOB.value, complete_from(), t.RUNNING),
        ],
    )
    breaches: list[Breach] = []
    for row in found[:MAX_FOUND]:
        number, status, holds, version, steps, ends, moves, others, put_off, same = row
        subject = f"job {number}"
        if status in t.FINAL and not same:
            text = say(_("is %(status)s, but has no such end in the journal"), {"status": status})
            breaches.append(Breach("I53", subject, text))
        if ends != holds - (status == t.RUNNING):
            words = _(
                "is %(status)s and was held %(holds)d times, but has %(ends)d ends in the journal"
            )
            text = say(words, {"status": status, "holds": holds, "ends": ends})
            breaches.append(Breach("I28", subject, text))
        low = 1 + holds + moves
        high = low + steps + others + put_off * steps
        if not low <= version <= high:
            text = say(
                _("has version %(version)d, but its tries and entries make %(low)d to %(high)d"),
                {"version": version, "low": low, "high": high},
            )
            breaches.append(Breach("I39", subject, text))
    return CheckResult(count_of(Job, recent), breaches, len(found) > MAX_FOUND)


_FLAWS = {
    history.ILLEGAL: ("I26", _("went from %(first)s to %(second)s, which is not allowed")),
    history.UNSIGNED: ("I26", _("went from %(first)s to %(second)s without the name of a person")),
    history.GAP: ("I26", _("became %(first)s, but the next entry starts from %(second)s")),
    history.TWICE: ("I27", _("try %(first)s has ended twice")),
    history.OVERLAP: ("I27", _("try %(second)s began before try %(first)s had ended")),
}


def _histories(recent: int) -> CheckResult:
    """I26, I27: the newest entries of each job can have happened in that order."""
    newest = f"(SELECT * FROM {table(JournalEntry)} ORDER BY id DESC LIMIT %s)"
    rows = fetch(
        "SELECT e.id, e.at, e.subject_id, e.event, e.from_state, e.to_state, e.actor, e.data, "
        f"j.status, j.holds, j.held_at FROM {newest} e "
        f"JOIN {table(Job)} j ON j.id = e.subject_id WHERE e.source = %s",
        [recent, Source.JOB.value],
    )
    by_job = itemgetter(2)
    breaches: list[Breach] = []
    for number, mine in groupby(sorted(rows, key=by_job), by_job):
        entries = list(mine)
        history_of = [_entry(row) for row in entries]
        status, hold, held_at = entries[0][8:]
        now = history.Now(status, hold, instant(held_at))
        for flaw in history.flaws(history_of, now, apart=APART):
            invariant, words = _FLAWS[flaw.kind]
            text = say(words, {"first": flaw.first, "second": flaw.second})
            breaches.append(Breach(invariant, f"job {number}", text))
    return CheckResult(
        count_of(JournalEntry, recent), breaches[:MAX_FOUND], len(breaches) > MAX_FOUND
    )


def _entry(row: tuple[Any, ...]) -> history.JobEntry:
    number, at, _job, event, from_state, to_state, actor, text = row[:8]
    data = json.loads(text) if text and from_state == t.RUNNING else {}
    held_at = data.get("held_at")
    return history.JobEntry(
        made_at=ids.made_at(number),
        at=instant(at),
        event=event,
        from_state=from_state,
        to_state=to_state,
        actor=actor,
        hold=data.get("hold"),
        held_at=datetime.fromisoformat(held_at) if held_at else None,
    )


def _kept(recent: int) -> CheckResult:
    """I61: what the newest entries say has ended is live or archived, not both, until forgotten."""
    newest = (
        "(SELECT source, subject_id, type_or_task, to_state, at "
        f"FROM {table(JournalEntry)} ORDER BY id DESC LIMIT %s)"
    )
    rows = fetch(
        "SELECT c.subject_id, c.type_or_task, c.ended, j.id, a.id FROM ("
        f"SELECT subject_id, type_or_task, MAX(at) AS ended FROM {newest} n "
        f"WHERE source = %s AND to_state IN ({_listed(t.FINAL)}) "
        "GROUP BY subject_id, type_or_task) c "
        f"LEFT JOIN {table(Job)} j ON j.id = c.subject_id "
        f"LEFT JOIN {table(ArchivedJob)} a ON a.id = c.subject_id "
        "WHERE (j.id IS NULL) = (a.id IS NULL) ORDER BY c.subject_id",
        [recent, Source.JOB.value],
    )
    horizons = Horizons(clock.now())
    breaches: list[Breach] = []
    for number, type_name, ended, live, _archived in rows:
        if live is not None:
            text = say(_("is among the live jobs and the older ones"), {})
            breaches.append(Breach("I61", f"job {number}", text))
        elif not horizons.has_passed(type_name, instant(ended)):
            text = say(_("ended at %(at)s and is kept nowhere"), {"at": instant(ended)})
            breaches.append(Breach("I61", f"job {number}", text))
    return CheckResult(
        count_of(JournalEntry, recent), breaches[:MAX_FOUND], len(breaches) > MAX_FOUND
    )


def _logs(recent: int) -> CheckResult:
    """I61: the jobs of the newest logs are live or archived."""
    newest = f"(SELECT DISTINCT job FROM {table(JobLog)} WHERE id > %s)"
    [(last,)] = fetch(f"SELECT COALESCE(MAX(id), 0) FROM {table(JobLog)}")
    rows = fetch(
        f"SELECT n.job FROM {newest} n LEFT JOIN {table(Job)} j ON j.id = n.job "
        f"LEFT JOIN {table(ArchivedJob)} a ON a.id = n.job "
        f"WHERE j.id IS NULL AND a.id IS NULL ORDER BY n.job LIMIT {MAX_FOUND + 1}",
        [last - recent],
    )
    text = say(_("is kept nowhere, but its log is"), {})
    breaches = [Breach("I61", f"job {number}", text) for (number,) in rows[:MAX_FOUND]]
    return CheckResult(count_of(JobLog, recent), breaches, len(rows) > MAX_FOUND)


CHECKS = (
    *key_invariants.CHECKS,
    Check(
        "jobs",
        ("I26", "I27", "I28", "I29", "I35", "I39", "I69"),
        _("The columns of each job agree with each other and the time"),
        _jobs,
    ),
    Check(
        "jobs in the journal",
        ("I28", "I39", "I53"),
        _("The newest jobs have each try, change and end in the journal"),
        _in_journal,
        recent=True,
    ),
    Check(
        "journal entries",
        ("I26", "I27"),
        _("The newest entries of each job are a possible history"),
        _histories,
        recent=True,
    ),
    Check(
        "ends in the journal",
        ("I61",),
        _("The newest ended jobs are live or among the older ones, never both, until forgotten"),
        _kept,
        recent=True,
    ),
    Check("logs of jobs", ("I61",), _("The newest logs are those of jobs"), _logs, recent=True),
)
