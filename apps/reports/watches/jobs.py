"""Jobs that fail, wait, pile up or are kept from starting."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.admin.display import duration_of
from apps.common.masking import redact
from apps.common.messages import Message as _
from apps.jobs.rules import breaker
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.reports.rules.limits import Limit
from apps.reports.services.standing import Standing
from apps.reports.watches.base import Reading, RuleWatch, Watch, share, time
from apps.reports.watches.subjects import JOB_TYPE, Way, act_on

# Fewer ended jobs say nothing about a share of failures.
MIN_ENDED = 20
# Of the reason of a pause.
_MAX_REASON = 200


def _failures(sheet: Standing) -> Iterator[Reading]:
    for name in sheet.type_names:
        found = sheet.ended_lately.get(name)
        is_enough = found is not None and found.ended >= MIN_ENDED
        yield Reading(JOB_TYPE, name, found.failed_share if found and is_enough else None)


def _due(sheet: Standing) -> Iterator[Reading]:
    paused = {each.name for each in sheet.types if each.is_paused(sheet.now)}
    for name, since in sheet.oldest_due_by_type.items():
        if name not in paused:
            yield Reading(JOB_TYPE, name, max(0.0, (sheet.now - since).total_seconds()))


def _backlogs(sheet: Standing) -> Iterator[Reading]:
    for name, ready in sheet.growing.items():
        yield Reading(JOB_TYPE, name, ready)


def _breakers(sheet: Standing) -> Iterator[Reading]:
    rows = {each.name: each.pk for each in sheet.types}
    for name, found in sheet.breakers.items():
        # An open one lets a job through now and then, and opens again.
        if found.state != breaker.CLOSED:
            why = ""
            if found.probe_at is not None and found.probe_at > sheet.now:
                wait = (found.probe_at - sheet.now).total_seconds()
                why = _("first probe in {time}", time=duration_of(int(wait * 1000)))
            yield Reading(JOB_TYPE, name, why=why, row=rows[name])


def _paused(sheet: Standing) -> Iterator[Reading]:
    for each in sheet.types:
        if each.is_paused(sheet.now):
            yield Reading(JOB_TYPE, each.name, why=_pause(each), row=each.pk)


def _pause(known: TypeSnapshot) -> str:
    reason = str(redact(known.pause_reason))[:_MAX_REASON]
    if known.paused_until is None:
        return reason
    if not reason:
        return _("until {at}", at=known.paused_until)
    return _("until {at}: {reason}", at=known.paused_until, reason=reason)


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
    shows=share,
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
    label=_("longest due: a job of a type waits too long"),
)
BREAKER_OPEN = RuleWatch(
    key="breaker_open",
    title=_("Breakers are closed"),
    read=_breakers,
    says={JOB_TYPE: _("The breaker of the job type {name} is open: its jobs do not start.")},
    label=_("open breaker"),
    is_urgent=True,
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
    label=_("growing backlog: more jobs come than end"),
)
PAUSED = Watch(
    key="paused",
    title=_("Job types run"),
    read=_paused,
    says={JOB_TYPE: _("The job type {name} is paused: its jobs wait.")},
    leads={JOB_TYPE: Way("jobs.operate_jobtype", _("Resume"), act_on("jobs_jobtype", "resume"))},
    is_urgent=True,
)
