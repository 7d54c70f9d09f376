"""Job types that nobody uses, and errors that many jobs have failed with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection

from apps.common.db import fetch, fetch_each, force_index, table
from apps.common.messages import Message as _
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import counts, types
from apps.journal.services.minutes import second_of
from apps.reports.models import Rollup
from apps.reports.rules.coverage import DAY, EIGHT_DAYS, HOUR, floor
from apps.reports.rules.outcomes import JOB
from apps.reports.rules.tally import TYPE, error_value
from apps.reports.services.standing import Standing
from apps.reports.watches.base import MAX_FOUND, Reading, Watch
from apps.reports.watches.subjects import ERROR, JOB_TYPE, Way, act_on

UNUSED = timedelta(days=90)
MAX_FAILED = 1_000
# How many of the newest failed jobs of a type with many are looked at.
SAMPLE = 300
# Errors that are looked at, the most frequent, and jobs of each, the newest.
MAX_ERRORS = 5
READ = 2_000
_STATES = (*t.FINAL, *t.WAITING, t.RUNNING)


# --- G7 -------------------------------------------------------------------------------------------
def _unused(sheet: Standing) -> Iterator[Reading]:
    now = sheet.now
    since = now - UNUSED
    # The platform needs its own types, however seldom their jobs come.
    old = types.for_people(None).filter(created_at__lt=since, paused=False)
    rows = dict(old.values_list("name", "pk"))
    used = _used_since(since, now)
    idle = [name for name in rows if name not in used][: MAX_FOUND + len(_STATES)]
    having = _having_jobs(idle)
    for name in idle:
        if name not in having:
            yield Reading(JOB_TYPE, name, row=rows[name])


def _used_since(since: datetime, now: datetime) -> set[str]:
    """The types of which something ended, by the totals; the last hour is not part of them."""
    begin = floor(second_of(since), EIGHT_DAYS)
    today, hour = floor(second_of(now), DAY), floor(second_of(now), HOUR)
    # Eight days at once, and the last days one by one.
    middle = floor(today, EIGHT_DAYS)
    sql = (
        f"SELECT DISTINCT value FROM {table(Rollup)} WHERE level = %s AND source = %s "
        "AND dimension = %s AND start >= %s AND start < %s"
    )
    parts = [(EIGHT_DAYS, begin, middle), (DAY, middle, today), (HOUR, today, hour)]
    wanted = ((sql, [level, JOB, TYPE, low, high]) for level, low, high in parts)
    return {value for (value,) in fetch_each(wanted)}


def _having_jobs(names: list[str]) -> set[str]:
    """Those of the types that have a job, open or ended lately."""
    one = f"SELECT type FROM {table(Job)}{force_index('job_claim')} WHERE status = %s AND type = %s"
    parts = ((f"{one} LIMIT 1", [status, name]) for name in names for status in _STATES)
    return {name for (name,) in fetch_each(parts)}


# --- G9 -------------------------------------------------------------------------------------------
def _same_failures(sheet: Standing) -> Iterator[Reading]:
    """Among the failed jobs themselves: the totals would name errors that have been retried since,
    and have a row for each error and hour."""
    names = sorted(sheet.type_names)
    failed = counts.failed_of(names, limit=MAX_FAILED + 1)
    full = [name for name in names if failed[name] > MAX_FAILED][:MAX_FOUND]
    errors = Counter(error for name in full for error in _newest_errors(name))
    for (type_, key), _count in errors.most_common(MAX_ERRORS):
        if _failed(type_, key) > MAX_FAILED:
            text = _(
                "More than {count} jobs of type {type} have failed with the same error and are not "
                "in the archive yet.",
                count=f"{MAX_FAILED:,}",
                type=type_,
            )
            yield Reading(ERROR, error_value(type_, key), text=text)


def _newest_errors(type_: str) -> list[tuple[str, str]]:
    """Type and key of the errors that the newest failed jobs of the type ended with."""
    # The end of the range of the index that each database counts them by.
    is_mysql = connection.vendor == "mysql"
    newest = "affinity_host DESC, order_key DESC, id DESC" if is_mysql else "id DESC"
    rows = fetch(
        f"SELECT error_key FROM {table(Job)}{force_index('job_claim')} "
        f"WHERE status = '{t.FAILED}' AND type = %s ORDER BY {newest} LIMIT {SAMPLE}",
        [type_],
    )
    return [(type_, key) for (key,) in rows if key]


def _failed(type_: str, key: str) -> int:
    """How many of the newest jobs with the error have failed."""
    newest = (
        f"SELECT status FROM {table(Job)}{force_index('job_error')} "
        f"WHERE error_key = %s AND type = %s ORDER BY id DESC LIMIT {READ}"
    )
    [(count,)] = fetch(
        f"SELECT COUNT(*) FROM ({newest}) some WHERE status = %s", [key, type_, t.FAILED]
    )
    return int(count)


UNUSED_TYPES = Watch(
    key="G7",
    title=_("Job types are used"),
    read=_unused,
    says={JOB_TYPE: _("No job of type {name} has come for 90 days.")},
    leads={JOB_TYPE: Way("jobs.operate_jobtype", _("Pause"), act_on("jobs_jobtype", "pause"))},
)
# What mends it is the page that retries the jobs of an error.
SAME_FAILURES = Watch(key="G9", title=_("Few jobs fail with the same error"), read=_same_failures)
