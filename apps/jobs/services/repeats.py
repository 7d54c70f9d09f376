"""Repeated reports: the first answer again, however long ago, from the journal.

The entry of each end keeps a key of its report: half of it is that of the token, half of what was
reported. Nothing is read until a report comes that its job no longer waits for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from apps.common.db import fetch, placeholders, table
from apps.common.errors import Conflict, PlatformError
from apps.common.messages import Message as _
from apps.jobs.errors import LeaseLost, not_held
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import LOSSES, OUTCOMES, Outcome
from apps.jobs.rules.submission import Submission, to_json
from apps.jobs.rules.transitions import LockedJob
from apps.journal.models import JournalEntry, Source

STALE = "stale"
_HALF = 16
# What names the report, or is no part of it.
_ASIDE = {"id", "token", "type", "log", "reason", "report", "noted"}
_REPORTED = tuple(field.name for field in fields(Outcome) if field.name not in _ASIDE)
_reported = attrgetter(*_REPORTED)
_BLANK: tuple[Any, ...] = _reported(Outcome(id=0, token="", end=""))


def report_key(report: Outcome) -> str:
    """32 hex digits: equal for equal reports under one token."""
    if report.report:
        return report.report
    values = _reported(report)
    return _hash(report.token) + (_key_of(values) if report.has_json else _known_key_of(values))


def key_of_words(said: str, token: str, *, job: int, hold: int) -> str:
    """The key of a report that its sender wrote in these words, under the token of that hold.

    "" for the token of a hold that is over: the journal then has the half that is its.
    """
    half = _hash(token) if token else _half_of(job, hold)
    return half + _hash(said)


def _half_of(job: int, hold: int) -> str:
    """The half of the keys of reports under the token of a hold that is over."""
    ends = [each for each in earlier_reports([job])[job] if each.hold == hold and each.key]
    return ends[0].key[:_HALF] if ends else _hash(f"hold {hold}")


def _key_of(values: tuple[Any, ...]) -> str:
    said = {
        name: value
        for name, value, usual in zip(_REPORTED, values, _BLANK, strict=True)
        if value is not usual and not (isinstance(value, str) and value == usual)
    }
    try:
        text = json.dumps(said, sort_keys=True, default=_json_value)
    except (TypeError, ValueError, RecursionError) as error:
        # Such a report is refused, and so is any other for the same reason.
        text = repr(error)
    return _hash(text)


def _json_value(value: object) -> object:
    return to_json(value) if isinstance(value, Submission) else repr(value)


# Most jobs of a batch end alike.
_known_key_of = lru_cache(maxsize=256)(_key_of)


@lru_cache(maxsize=256)
def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HALF // 2).hexdigest()


class EarlierReport(NamedTuple):
    """An entry of the journal about an end or a report of the client's worker: its number, and what
    it says. `hold` is 0 where it names none, and a lost attempt has no key."""

    entry: int
    event: str
    status: str
    worker: str
    key: str
    hold: int
    client: str

    def has_token_of(self, key: str) -> bool:
        return self.key[:_HALF] == key[:_HALF]


def earlier_reports(ids: Collection[int]) -> dict[int, list[EarlierReport]]:
    """The earlier reports of each job, and its losses."""
    found: dict[int, list[EarlierReport]] = {number: [] for number in ids}
    if not found:
        return found
    events = [*OUTCOMES, *LOSSES, STALE]
    rows = fetch(
        f"SELECT subject_id, id, event, to_state, worker, data FROM {table(JournalEntry)} "
        f"WHERE source = %s AND subject_id IN ({placeholders(len(found))}) "
        f"AND event IN ({placeholders(len(events))})",
        [Source.JOB, *found, *events],
    )
    for number, entry, event, status, worker, text in rows:
        data = json.loads(text or "{}")
        key, hold, client = data.get("report", ""), data.get("hold", 0), data.get("client", "")
        found[number].append(EarlierReport(entry, event, status, worker, key, hold, client))
    return found


def late_answer(
    report: Outcome, job: LockedJob, earlier: Collection[EarlierReport], client: str
) -> tuple[str | PlatformError, bool]:
    """The answer to a client's report of an attempt that is over, and whether the journal keeps it.

    Another client may hold the job by now: each hears of its own attempts, and of no others.
    """
    key = report_key(report)
    mine = [each for each in earlier if each.client == client]
    if job.client != client and not mine:
        return not_held(job.id), False
    same = [each for each in mine if each.has_token_of(key)]
    for each in same:
        if each.event != STALE:
            is_repeat = each.key == key
            return each.status if is_repeat else _contradiction(each.event), False
    ends_mine = job.client == client and job.lease_token == report.token
    if report.token and ends_mine and job.status != t.RUNNING:
        # The entry of its end is no longer kept.
        return job.status if job.last_end == report.end else _contradiction(job.last_end), False
    stale = [each for each in earlier if each.event == STALE]
    # A job has as many tokens as holds; a report under another token says nothing about it.
    return LeaseLost(), not same and len(stale) < job.holds


def _contradiction(end: str) -> Conflict:
    return Conflict(_("It was reported as {end} before; that stands.", end=end))
