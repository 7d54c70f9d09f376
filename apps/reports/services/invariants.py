"""Audit of the reports: the stored rollups are what the journal adds up to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.audit import MAX_FOUND, Breach, Check, CheckResult, say
from apps.common.db import fetch, table
from apps.common.leases import load_position
from apps.journal.conf import conf as journal_conf
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.models import RollupBucket
from apps.reports.rules.coverage import (
    DAY,
    EIGHT_DAYS,
    FOUR_HOURS,
    HOUR,
    LEVELS,
    MINUTE,
    PART,
    QUARTER,
)
from apps.reports.services.entries import read_one
from apps.reports.services.rollup import rebuilt_from
from apps.reports.services.totals import SWEEP, rows_of, stored_rows

_SAMPLES = 3
_WORDS = {
    MINUTE: "minute",
    QUARTER: "quarter of an hour",
    HOUR: "hour",
    FOUR_HOURS: "four hours",
    DAY: "day",
    EIGHT_DAYS: "eight days",
}


def _name(level: int, start: int) -> str:
    return f"{_WORDS[level]} {instant_of(start):%Y-%m-%dT%H:%MZ}"


def _totals(recent: int) -> CheckResult:
    """I54: stored rollups are what the journal adds up to. Checked are the newest minutes with
    entries and a few longer buckets, different ones every day."""
    breaches = []
    rows = 0
    for level, start, entries in _sampled(recent):
        rows += entries
        counted = read_one(start, start + level).tallies(level)
        expected, stored = set(rows_of(level, start, counted)), set(stored_rows(level, start))
        if expected != stored:
            text = say(
                _("%(count)d of its rollups differ from the journal"),
                {"count": len({row[:5] for row in expected ^ stored})},
            )
            breaches.append(Breach("I54", _name(level, start), text))
    if not rows:
        minutes = _settled_after() // timedelta(minutes=1)
        nothing = say(_("no entry is older than %(minutes)d minutes yet"), {"minutes": minutes})
        return CheckResult(0, nothing=nothing)
    return CheckResult(rows, breaches)


def _settled_after() -> timedelta:
    """How old a minute is that no late commit changes any more."""
    return journal_conf.JOURNAL_LATE + timedelta(minutes=5)


def _sampled(recent: int) -> Iterator[tuple[int, int, int]]:
    """(level, start, entries) of buckets that no late commit changes any more, and whose entries
    the journal still has."""
    now = clock.now()
    settled = second_of(now - _settled_after())
    complete_from = rebuilt_from()
    first = 0 if complete_from is None else second_of(complete_from)
    left = recent
    newest = fetch(
        f"SELECT start, entries FROM {table(RollupBucket)} "
        "WHERE level = %s AND start < %s AND entries > 0 ORDER BY start DESC LIMIT %s",
        [MINUTE, settled - MINUTE, MAX_FOUND],
    )
    for start, entries in newest:
        left -= entries
        if left < 0:
            break
        yield MINUTE, start, entries
    for level in LEVELS[1:]:
        older = fetch(
            f"SELECT start, entries FROM {table(RollupBucket)} "
            "WHERE level = %s AND start >= %s AND start < %s AND entries BETWEEN 1 AND %s",
            [level, first, settled - level, recent],
        )
        for sample in range(min(_SAMPLES, len(older))):
            start, entries = older[(now.toordinal() * 31 + sample * 7919) % len(older)]
            yield level, start, entries


def _buckets(_recent: int) -> CheckResult:
    """I54: a bucket is stored when all its parts are, counts as many entries, and none is missing
    between the first and the last of its level."""
    buckets = table(RollupBucket)
    breaches = []
    for level in LEVELS[1:]:
        part = PART[level]
        unlike = fetch(
            "SELECT p.start, p.entries, b.entries FROM ("
            f"SELECT start - start %% {level} AS start, COUNT(*) AS parts, SUM(entries) AS entries "
            f"FROM {buckets} WHERE level = %s GROUP BY 1) p "
            f"LEFT JOIN {buckets} b ON b.level = %s AND b.start = p.start "
            "WHERE p.parts = %s AND (b.entries IS NULL OR b.entries <> p.entries) "
            "ORDER BY 1 DESC LIMIT %s",
            [part, level, level // part, MAX_FOUND],
        )
        for start, entries, stored in unlike:
            if stored is None:
                text = say(_("is not stored, although its parts are"), {})
            else:
                words = _("counts %(stored)d entries, its parts %(entries)d")
                text = say(words, {"stored": stored, "entries": entries})
            breaches.append(Breach("I54", _name(level, start), text))
    has_gaps = bool(load_position(SWEEP).get("gaps"))
    counts = fetch(f"SELECT level, COUNT(*), MIN(start), MAX(start) FROM {buckets} GROUP BY level")
    for level, count, first, last in [] if has_gaps else counts:
        missing = (last - first) // level + 1 - count
        if missing:
            words = _("%(count)d are missing up to %(last)s, and no gap is saved")
            text = say(words, {"count": missing, "last": _name(level, last)})
            breaches.append(Breach("I54", _name(level, first), text))
    return CheckResult(sum(count for _level, count, *_rest in counts), breaches)


CHECKS = (
    Check("rollup buckets", ("I54",), _("No time is missing in the rollups"), _buckets),
    Check(
        "entries in the reports",
        ("I54",),
        _("The rollups are what the journal adds up to"),
        _totals,
        recent=True,
    ),
)
