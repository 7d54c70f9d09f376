"""Jobs that fail, wait, pile up or are kept from starting, and job types that nobody uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from django.db import connection

from apps.common.admin.display import duration_of
from apps.common.admin.html import list_url
from apps.common.db import fetch, fetch_each, force_index, table
from apps.common.masking import redact
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.models import Job
from apps.jobs.rules import breaker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import counts, inbox, types
from apps.journal.services.minutes import second_of
from apps.reports.models import ErrorGroup, Rollup
from apps.reports.rules.coverage import DAY, EIGHT_DAYS, HOUR, floor
from apps.reports.rules.limits import Limit
from apps.reports.rules.outcomes import JOB
from apps.reports.rules.tally import TYPE, error_value
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import (
    HELD,
    MAX_FOUND,
    WARNING,
    Reading,
    RuleWatch,
    Watch,
    share,
    time,
)
from apps.reports.watches.subjects import ERROR, INBOX, JOB_TYPE, Way, act_on

# Fewer ended jobs say nothing about a share of failures.
MIN_ENDED = 20
# Types whose newest error is read.
_MAX_QUOTED = 3
# The letters of the reason of a pause that are shown.
_MAX_REASON = 200
UNUSED = timedelta(days=90)
INBOX_WAITS = timedelta(minutes=1)
MAX_FAILED = 1_000
# How many of the newest failed jobs of a type with many are looked at.
SAMPLE = 300
# Errors that are looked at, the most frequent, and jobs of each, the newest.
MAX_ERRORS = 5
READ = 2_000
_STATES = (*t.FINAL, *t.WAITING, t.RUNNING)


def _failures(sheet: FactSheet) -> Iterator[Reading]:
    ended = sheet.ended_lately if sheet.type_names else {}
    judged = {n: ended[n] for n in sheet.type_names if n in ended and ended[n].ended >= MIN_ENDED}
    bad = [n for n, each in judged.items() if FAILURE_RATE.limit.is_passed(each.failed_share)]
    quotes = sheet.keep("newest errors", lambda: _quotes(bad[:_MAX_QUOTED])) if bad else {}
    for name in sheet.type_names:
        found = judged.get(name)
        if found is None:
            yield Reading(JOB_TYPE, name, None)
            continue
        via = _failed_jobs(name, found.failed)
        facts = {"ended": f"{found.ended:,}", "failed": f"{found.failed:,}"}
        why = quotes.get(name, "")
        yield Reading(JOB_TYPE, name, found.failed_share, why=why, facts=facts, via=via)


def _quotes(types_: Sequence[str]) -> dict[str, Message]:
    """The error that most of the newest failed jobs of each type ended with, in quotes."""
    errors: dict[str, Counter[str]] = {}
    for type_, key in _newest_errors(types_):
        errors.setdefault(type_, Counter())[key] += 1
    most = {type_: found.most_common(1)[0][0] for type_, found in errors.items()}
    same = ErrorGroup.objects.filter(error_key__in=[*most.values()], source=JOB)
    lines = same.values_list("type_or_task", "error_key", "sample") if most else ()
    return {
        type_: _("“{text}”", text=str(redact(line))[:_MAX_REASON])
        for type_, key, line in lines
        if most.get(type_) == key and line
    }


def _failed_jobs(type_: str, count: int) -> Way:
    url = list_url("jobs_job", type=type_, status=t.FAILED)
    return Way("jobs.view_job", _("See the {count}", count=f"{count:,}"), lambda *_of: url)


def _due(sheet: FactSheet) -> Iterator[Reading]:
    paused = {each.name for each in sheet.types if each.is_paused(sheet.now)}
    for name, since in sheet.oldest_due_by_type.items():
        if name not in paused:
            waited = max(0.0, (sheet.now - since).total_seconds())
            yield Reading(JOB_TYPE, name, waited, since=since)


def _backlogs(sheet: FactSheet) -> Iterator[Reading]:
    for name, ready in sheet.growing.items():
        yield Reading(JOB_TYPE, name, ready)


def _breakers(sheet: FactSheet) -> Iterator[Reading]:
    rows = {each.name: each.pk for each in sheet.types}
    for name, found in sheet.breakers.items():
        # An open one lets a job through now and then, and opens again.
        if found.state != breaker.CLOSED:
            why = ""
            if found.probe_at is not None and found.probe_at > sheet.now:
                wait = (found.probe_at - sheet.now).total_seconds()
                why = _("first probe in {time}", time=duration_of(int(wait * 1000)))
            yield Reading(JOB_TYPE, name, why=why, row=rows[name])


def _paused(sheet: FactSheet) -> Iterator[Reading]:
    paused = [each for each in sheet.types if each.is_readable and each.is_paused(sheet.now)]
    waiting = sheet.ready_by_type
    for each in paused:
        facts, alone = {}, _("The job type {name} is paused.", name=each.name)
        if each.paused_at is not None:
            by, since = _person(each.paused_by), each.paused_at
            alone = _("{name} is paused by {by} since {since}", name=each.name, by=by, since=since)
            facts = {"by": by, "since": since, "waiting": _waiting(waiting[each.name])}
        yield Reading(
            JOB_TYPE,
            each.name,
            why=_pause(each),
            row=each.pk,
            since=each.paused_at,
            facts=facts,
            alone=alone,
        )


def _waiting(count: int) -> Message:
    if count < 2:
        return _("one job waits") if count else _("no job waits")
    more = "+" if count >= counts.MAX_COUNTED else ""
    return _("{count} jobs wait", count=f"{count:,}{more}")


def _person(actor: str) -> str:
    return actor.removeprefix("admin:")


def _pause(known: TypeSnapshot) -> str:
    reason = str(redact(known.pause_reason))[:_MAX_REASON]
    ends = _("no end was set")
    if known.paused_until is not None:
        ends = _("until {at}", at=known.paused_until)
    return _("“{reason}” · {ends}", reason=reason, ends=ends) if reason else ends


# --- G7 -------------------------------------------------------------------------------------------
def _inbox(sheet: FactSheet) -> Iterator[Reading]:
    refused, since = inbox.inbox_state(MAX_FAILED)
    if refused:
        text = _("Rows of the inbox of which no job could be made: {count}.", count=refused)
        yield Reading(INBOX, "", text=text)
    if since is not None and sheet.now - since > INBOX_WAITS:
        text = _("A row of the inbox has waited since {at}: its sweep does not run.", at=since)
        yield Reading(INBOX, "", text=text)


def _unused(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    since = now - UNUSED
    # The platform needs its own types, however seldom their jobs come.
    old = types.for_people(None).filter(created_at__lt=since, paused=False)
    rows = dict(old.values_list("name", "pk"))
    used = _used_since(since, now)
    idle = [name for name in rows if name not in used][: MAX_FOUND + len(_STATES)]
    having = _types_with_jobs(idle)
    for name in idle:
        if name not in having:
            yield Reading(JOB_TYPE, name, row=rows[name])


def _used_since(since: datetime, now: datetime) -> set[str]:
    """The types of which jobs ended, by the totals; the present hour is left out."""
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


def _types_with_jobs(names: list[str]) -> set[str]:
    """The job types among `names` that have a job, open or ended lately."""
    one = f"SELECT type FROM {table(Job)}{force_index('job_claim')} WHERE status = %s AND type = %s"
    parts = ((f"{one} LIMIT 1", [status, name]) for name in names for status in _STATES)
    return {name for (name,) in fetch_each(parts)}


# --- G9 -------------------------------------------------------------------------------------------
def _same_failures(sheet: FactSheet) -> Iterator[Reading]:
    """Errors of very many failed jobs, counted by the jobs: the totals would include jobs that have
    been retried since, and have a row for each error and hour."""
    names = sorted(sheet.type_names)
    failed = counts.failed_of(names, limit=MAX_FAILED + 1)
    full = [name for name in names if failed[name] > MAX_FAILED][:MAX_FOUND]
    errors = Counter(_newest_errors(full))
    for (type_, key), _count in errors.most_common(MAX_ERRORS):
        if _failed(type_, key) > MAX_FAILED:
            text = _(
                "More than {count} jobs of type {type} have failed with the same error and are not "
                "among the older ones yet.",
                count=f"{MAX_FAILED:,}",
                type=type_,
            )
            yield Reading(ERROR, error_value(type_, key), text=text)


def _newest_errors(types_: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Type and key of the errors that the newest failed jobs of each type ended with."""
    one = f"SELECT type, error_key FROM {_newest_failed()} LIMIT {SAMPLE}"
    for type_, key in fetch_each((one, [name]) for name in types_):
        if key:
            yield type_, key


def _newest_failed() -> str:
    """The failed jobs of a type from the end of the range of the index that each database counts
    them by."""
    is_mysql = connection.vendor == "mysql"
    newest = "affinity_host DESC, order_key DESC, id DESC" if is_mysql else "id DESC"
    return (
        f"{table(Job)}{force_index('job_claim')} "
        f"WHERE status = '{t.FAILED}' AND type = %s ORDER BY {newest}"
    )


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


FAILURE_RATE = RuleWatch(
    key="failure_rate",
    title=_("Most jobs of each type succeed"),
    read=_failures,
    limit=Limit(0.2, 120, highest=1.0),
    says={
        JOB_TYPE: _(
            "{value} of the jobs of type {name} that ended in the last 15 minutes failed; the "
            "limit is {limit}."
        )
    },
    says_now={
        JOB_TYPE: _("{failed} of {ended} {name} jobs failed in 15 min; the limit is {limit}")
    },
    shows=share,
    severity=WARNING,
    label=_("failure rate: too many jobs of a type fail"),
    nothing=_("A type counts from {count} ended jobs in 15 minutes on.", count=MIN_ENDED),
)
OLDEST_DUE = RuleWatch(
    key="oldest_due",
    title=_("No job waits too long"),
    read=_due,
    limit=Limit(300.0, 60),
    says={
        JOB_TYPE: _("A job of type {name} has been due for {value}; the limit is {limit}."),
    },
    shows=time,
    severity=WARNING,
    icon="hourglass_top",
    label=_("longest due: a job of a type waits too long"),
)
BREAKER_OPEN = RuleWatch(
    key="breaker_open",
    title=_("Breakers are closed"),
    read=_breakers,
    says={JOB_TYPE: _("The breaker of the job type {name} is open: its jobs do not start.")},
    severity=WARNING,
    icon="electrical_services",
    label=_("open breaker"),
)
BACKLOG_GROWTH = RuleWatch(
    key="backlog_growth",
    title=_("No backlog grows"),
    read=_backlogs,
    # Ready jobs are counted up to a thousand.
    limit=Limit(100.0, 900, highest=1_000.0),
    says={
        JOB_TYPE: _(
            "{value} jobs of type {name} are ready, and more come than end; the limit is {limit}."
        )
    },
    shows="{:,.0f}".format,
    severity=WARNING,
    icon="trending_up",
    label=_("growing backlog: more jobs come than end"),
)
PAUSED = Watch(
    key="paused",
    title=_("Job types run"),
    read=_paused,
    says={JOB_TYPE: _("The job type {name} is paused: its jobs wait.")},
    says_now={JOB_TYPE: _("{name} is paused by {by} since {since}; {waiting}")},
    leads={JOB_TYPE: Way("jobs.operate_jobtype", _("Resume"), act_on("jobs_jobtype", "resume"))},
    severity=HELD,
    icon="pause_circle",
)
INBOX_ROWS = Watch(
    key="inbox",
    title=_("The rows of the inbox become jobs"),
    read=_inbox,
    severity=WARNING,
    icon="inbox",
)
UNUSED_TYPES = Watch(
    key="G7",
    title=_("Job types are used"),
    read=_unused,
    says={JOB_TYPE: _("No job of type {name} has come for 90 days.")},
    leads={JOB_TYPE: Way("jobs.operate_jobtype", _("Pause"), act_on("jobs_jobtype", "pause"))},
)
# The page that retries the jobs of an error mends it.
SAME_FAILURES = Watch(key="G9", title=_("Few jobs fail with the same error"), read=_same_failures)
