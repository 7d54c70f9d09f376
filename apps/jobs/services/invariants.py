"""The promises of jobs, checked on the rows as they are; they only read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.utils.translation import gettext_lazy as _

from apps.common import clock, ids
from apps.common.db import fetch, instant, table
from apps.common.invariants import (
    APART_SECONDS,
    MAX_FOUND,
    Breach,
    Check,
    Looked,
    RowRule,
    look_at_rows,
    say,
)
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import history
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry, Source

# So long after the end of a lease, and its own period, the rescue must have come by.
RESCUED_WITHIN = timedelta(minutes=1)
APART = timedelta(seconds=APART_SECONDS)


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
        _("has the status %(status)s, which there is not"),
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
            "is running without all that belongs to it: lease until %(lease_until)s, hard end "
            "%(hard_end_at)s, held %(held_at)s, a token, worker '%(worker)s'"
        ),
        ("lease_until", "hard_end_at", "held_at", "worker"),
    ),
    RowRule(
        "I27",
        f"{_RUNNING} AND lease_until > hard_end_at",
        _("has a lease until %(lease_until)s, past its hard end at %(hard_end_at)s"),
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
        _("has %(attempts)d attempts, but was held %(holds)d times"),
        ("attempts", "holds"),
    ),
    RowRule(
        "I28",
        f"({_WAITING} AND attempts >= max_attempts) "
        f"OR ({_RUNNING} AND (attempts > max_attempts OR attempts = 0))",
        _("is %(status)s with %(attempts)d of %(max_attempts)d attempts used"),
        ("status", "attempts", "max_attempts"),
    ),
    RowRule(
        "I35",
        f"{_FINAL} AND unique_key IS NOT NULL",
        _("is %(status)s, but keeps others with its key from being made"),
        ("status",),
    ),
    RowRule(
        "I39",
        "version < 1 + holds",
        _("has version %(version)d after %(holds)d holds"),
        ("version", "holds"),
    ),
]


def _jobs(_recent: int) -> Looked:
    """I26–I29, I35, I39: what the columns of a job say of each other, and of the time."""
    whole = "CONCAT(type, '|', `key`)" if connection.vendor == "mysql" else "type || '|' || key"
    rescued = clock.now() - RESCUED_WITHIN - timedelta(seconds=conf.JOB_RESCUE_SECONDS)
    rules = [
        *_STATES,
        RowRule(
            "I29",
            f"{_RUNNING} AND lease_until < %s",
            _("runs on, though its lease was over at %(lease_until)s"),
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
    return look_at_rows(Job, rules, "job")


def _told(recent: int) -> Looked:
    """I28, I39, I53: what the newest jobs, and those told of last, have in the journal.

    Each hold has one end there, unless it is under way; each change raised the version by one, and
    only promotions leave no entry.
    """
    jobs, entries = table(Job), table(JournalEntry)
    moved = f"e.from_state <> '' AND e.event <> '{history.STALE}'"
    # An entry of a kind that is not known here, without a change of state, may count or not.
    surely = "(e.from_state <> e.to_state OR e.event IN ('edited', 'run_now', 'cancel_requested'))"
    found = fetch(
        "SELECT * FROM (SELECT j.id, j.status, j.holds, j.version, "
        "SUM(CASE WHEN e.from_state = %s AND e.to_state <> %s THEN 1 ELSE 0 END) AS ends, "
        f"SUM(CASE WHEN {moved} AND {surely} THEN 1 ELSE 0 END) AS moves, "
        f"SUM(CASE WHEN {moved} AND NOT {surely} THEN 1 ELSE 0 END) AS others, "
        "SUM(CASE WHEN e.to_state = %s THEN 1 ELSE 0 END) AS put_off, "
        "SUM(CASE WHEN e.to_state = j.status AND e.from_state <> e.to_state "
        "THEN 1 ELSE 0 END) AS same "
        "FROM (SELECT id FROM "
        f"(SELECT id FROM {jobs} ORDER BY id DESC LIMIT %s) a UNION SELECT subject_id FROM "
        f"(SELECT source, subject_id FROM {entries} ORDER BY id DESC LIMIT %s) b "
        "WHERE source = %s) c "
        f"JOIN {jobs} j ON j.id = c.id "
        f"LEFT JOIN {entries} e ON e.source = %s AND e.subject_id = c.id "
        "GROUP BY j.id, j.status, j.holds, j.version) x WHERE "
        "ends + CASE WHEN status = %s THEN 1 ELSE 0 END <> holds "
        "OR version < 1 + holds + moves OR version > 2 + holds + moves + others + put_off "
        f"OR ({_FINAL} AND same = 0) ORDER BY id LIMIT {MAX_FOUND + 1}",
        [
            *(t.RUNNING, t.RUNNING, t.SCHEDULED, recent, recent),
            *(Source.JOB.value, Source.JOB.value, t.RUNNING),
        ],
    )
    breaches: list[Breach] = []
    for number, status, holds, version, ends, moves, others, put_off, same in found[:MAX_FOUND]:
        subject = f"job {number}"
        if status in t.FINAL and not same:
            text = say(_("is %(status)s, but the journal does not tell how"), {"status": status})
            breaches.append(Breach("I53", subject, text))
        if ends != holds - (status == t.RUNNING):
            text = say(
                _("is %(status)s and was held %(holds)d times, but %(ends)d ends are told"),
                {"status": status, "holds": holds, "ends": ends},
            )
            breaches.append(Breach("I28", subject, text))
        least, most = 1 + holds + moves, 2 + holds + moves + others + put_off
        if not least <= version <= most:
            text = say(
                _("has version %(version)d; its holds and its journal make %(least)d to %(most)d"),
                {"version": version, "least": least, "most": most},
            )
            breaches.append(Breach("I39", subject, text))
    rows = fetch(f"SELECT COUNT(*) FROM (SELECT id FROM {jobs} LIMIT %s) a", [recent])[0][0]
    return Looked(rows, breaches, len(found) > MAX_FOUND)


_FLAWS = {
    history.ILLEGAL: ("I26", _("went from %(first)s to %(second)s, which no arrow does")),
    history.UNSIGNED: ("I26", _("went from %(first)s to %(second)s, and no person is named")),
    history.GAP: ("I26", _("came to %(first)s, and what follows is %(second)s")),
    history.TWICE: ("I27", _("hold %(first)s has ended twice")),
    history.OVERLAP: ("I27", _("hold %(second)s began before hold %(first)s had ended")),
}


def _histories(recent: int) -> Looked:
    """I26, I27: what the newest entries tell of each job can have happened in that order."""
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
        told = [_told_from(row) for row in entries]
        status, hold, held_at = entries[0][8:]
        now = history.Now(status, hold, instant(held_at))
        for flaw in history.flaws(told, now, apart=APART):
            invariant, words = _FLAWS[flaw.kind]
            text = say(words, {"first": flaw.first, "second": flaw.second})
            breaches.append(Breach(invariant, f"job {number}", text))
    [(seen,)] = fetch(f"SELECT COUNT(*) FROM {newest} e", [recent])
    return Looked(seen, breaches[:MAX_FOUND], len(breaches) > MAX_FOUND)


def _told_from(row: tuple[Any, ...]) -> history.Told:
    number, at, _job, event, from_state, to_state, actor, text = row[:8]
    data = json.loads(text) if text and from_state == t.RUNNING else {}
    held_at = data.get("held_at")
    return history.Told(
        made_at=ids.made_at(number),
        at=instant(at),
        event=event,
        from_state=from_state,
        to_state=to_state,
        actor=actor,
        hold=data.get("hold"),
        held_at=datetime.fromisoformat(held_at) if held_at else None,
    )


CHECKS = (
    Check("jobs", ("I26", "I27", "I28", "I29", "I35", "I39"), _("Jobs row by row"), _jobs),
    Check(
        "jobs in the journal",
        ("I28", "I39", "I53"),
        _("The newest jobs and what the journal tells of them"),
        _told,
        recent=True,
    ),
    Check(
        "journal entries",
        ("I26", "I27"),
        _("The newest journal entries and what they tell of each job"),
        _histories,
        recent=True,
    ),
)
