"""The promise of the reports, checked on what is stored: it is what the journal adds up to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.db import fetch, table
from apps.common.invariants import MAX_FOUND, Breach, Check, Looked, say
from apps.common.leases import load_position
from apps.reports.conf import conf
from apps.reports.models import Stretch
from apps.reports.rules.cover import DAY, EIGHT_DAYS, FOUR_HOURS, HOUR, LEVELS, MINUTE, QUARTER
from apps.reports.services.entries import read_one
from apps.reports.services.stretches import instant_of, second_of
from apps.reports.services.totals import (
    SWEEP,
    has_all_levels,
    rows_of,
    stored_rows,
    unlike_parts,
)

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


def _totals(recent: int) -> Looked:
    """I54: stored totals are what the journal adds up to: of minutes with the newest entries, and
    of some longer stretches, others every day."""
    breaches = []
    rows = 0
    for level, start, entries in _sampled(recent):
        rows += entries
        counted = read_one(start, start + level).tallies(level)
        told, stored = set(rows_of(level, start, counted)), set(stored_rows(level, start))
        if told != stored:
            text = say(
                _("%(count)d of its totals are not what the journal adds up to"),
                {"count": len({row[:5] for row in told ^ stored})},
            )
            breaches.append(Breach("I54", _name(level, start), text))
    return Looked(rows, breaches)


def _sampled(recent: int) -> Iterator[tuple[int, int, int]]:
    """(level, start, entries) of stretches that no late commit changes any more."""
    now = clock.now()
    settled = second_of(now - conf.REPORT_LATE - timedelta(minutes=5))
    left = recent
    newest = fetch(
        f"SELECT start, entries FROM {table(Stretch)} "
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
            f"SELECT start, entries FROM {table(Stretch)} "
            "WHERE level = %s AND start < %s AND entries BETWEEN 1 AND %s",
            [level, settled - level, recent],
        )
        for sample in range(min(_SAMPLES, len(older))):
            start, entries = older[(now.toordinal() * 31 + sample * 7919) % len(older)]
            yield level, start, entries


def _stretches(_recent: int) -> Looked:
    """I54: whatever is complete is stored, and of as many entries as its parts."""
    stretches = table(Stretch)
    breaches = []
    position = load_position(SWEEP)
    is_behind = not has_all_levels(position)
    for level in LEVELS[1:]:
        for start, entries, stored in unlike_parts(level, most=MAX_FOUND):
            if stored is None and is_behind:
                continue
            values = {} if stored is None else {"stored": stored, "entries": entries}
            words = _("is not stored, although its parts are")
            if values:
                words = _("counts %(stored)d entries, its parts %(entries)d")
            text = say(words, values)
            breaches.append(Breach("I54", _name(level, start), text))
    is_behind = is_behind or bool(position.get("gaps"))
    counts = fetch(
        f"SELECT level, COUNT(*), MIN(start), MAX(start) FROM {stretches} GROUP BY level"
    )
    for level, count, first, last in [] if is_behind else counts:
        missing = (last - first) // level + 1 - count
        if missing:
            text = say(
                _("%(count)d are missing up to %(last)s, and nothing will fill in"),
                {"count": missing, "last": _name(level, last)},
            )
            breaches.append(Breach("I54", _name(level, first), text))
    return Looked(sum(count for _level, count, *_rest in counts), breaches)


CHECKS = (
    Check("stretches", ("I54",), _("No time is missing in the reports"), _stretches),
    Check(
        "entries in the reports",
        ("I54",),
        _("The reports say what the journal adds up to"),
        _totals,
        recent=True,
    ),
)
