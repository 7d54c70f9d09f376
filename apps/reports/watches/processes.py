"""Workers that are silent, quiet or lacking, and sweeps that do not come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.urls import reverse

from apps.common.admin.html import list_url
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.models import Worker
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.running import running_counts
from apps.jobs.services.types import names_among
from apps.reports.rules.limits import Limit
from apps.reports.services.fact_sheet import FactSheet, current_sheet
from apps.reports.watches.base import CRITICAL, HELD, WARNING, Reading, RuleWatch, Watch, time
from apps.reports.watches.subjects import BEAT, JOB_TYPE, SWEEP, WORKER, Way, act_on

# Types or sweeps that a sentence names.
_MAX_NAMED = 5
_GIVEN_BACK = _("What it held was given back.")
# How many of its periods a sweep may be late.
_MAX_LATE = 3.0


def _silent(sheet: FactSheet) -> Iterator[Reading]:
    lost = sheet.lost_workers
    held = running_counts(lost)
    for worker in lost:
        seen = worker.last_heartbeat_at
        silent = (sheet.now - seen).total_seconds()
        if count := held.get(WorkerKey(worker.client, worker.name), 0):
            why = _("Others take them when its leases end.")
            yield Reading(
                WORKER,
                worker.name,
                silent,
                why=why,
                row=worker.pk,
                since=seen,
                facts={"held": _held(count)},
                via=_jobs_of(worker.name, count),
            )
        else:
            yield Reading(
                WORKER,
                worker.name,
                silent,
                why=_GIVEN_BACK if worker.state == Worker.State.GONE else "",
                row=worker.pk,
                since=seen,
            )
    for type_ in sheet.unserved:
        yield Reading(JOB_TYPE, type_.name, 0.0, row=type_.pk)


def _unserved(sheet: FactSheet) -> Iterator[Reading]:
    """One reading for all job types without a worker, if there are several of them."""
    names = [each.name for each in sheet.unserved]
    text = _("No worker serves {count} job types", count=len(names))
    yield from _together(JOB_TYPE, names, text, WORKER_SILENT.key)


def _together(kind: str, names: Sequence[str], text: Message, watch: str) -> Iterator[Reading]:
    """One reading in place of several of the watch."""
    if len(names) > 1:
        instead = [(watch, f"{kind}:{name}") for name in names]
        yield Reading(kind, "", text=text, why=_listed(names), instead=instead)


def _listed(names: Sequence[str]) -> str:
    named = " · ".join(names[:_MAX_NAMED])
    return f"{named} · …" if len(names) > _MAX_NAMED else named


def _held(count: int) -> Message:
    return _("one job") if count == 1 else _("{count} jobs", count=f"{count:,}")


def _jobs_of(name: str, count: int) -> Way:
    url = list_url("jobs_job", worker=name, status=RUNNING)
    return Way("jobs.view_job", _("See the {count}", count=f"{count:,}"), lambda *_of: url)


def _quiet(sheet: FactSheet) -> Iterator[Reading]:
    for worker in sheet.quiet_workers:
        yield Reading(WORKER, worker.name, row=worker.pk)


def _sweeps(sheet: FactSheet) -> Iterator[Reading]:
    for sweep in sheet.sweeps:
        if sweep.overdue is not None:
            late = sweep.overdue.total_seconds() / sheet.periods[sweep.name]
            yield Reading(SWEEP, sweep.name, late)


def _late(sheet: FactSheet) -> Iterator[Reading]:
    """One reading for all sweeps that are late, if there are several and beat runs."""
    if sheet.is_beat_late:
        return
    names = [each.name for each in _sweeps(sheet) if (each.value or 0.0) > _MAX_LATE]
    text = _("{count} sweeps are late", count=len(names))
    yield from _together(SWEEP, names, text, SWEEP_OVERDUE.key)


def _beat(sheet: FactSheet) -> Iterator[Reading]:
    """One reading for all sweeps if none of them starts any more."""
    if not sheet.is_beat_late:
        return
    since = sheet.last_beat
    text = _("Beat has never run: no sweep starts, and nothing is judged")
    if since is not None:
        text = _("No sweep has started since {since}: beat or the workers do not run", since=since)
    yield Reading(BEAT, "beat", text=text, since=since, instead=[(SWEEP_OVERDUE.key, "")])


_CONNECT = Way(
    "jobs.view_jobtype",
    _("How to connect a worker"),
    lambda *_type: f"{reverse('admin:jobs_jobtype_handlers')}#connect",
)
WORKER_SILENT = RuleWatch(
    key="worker_silent",
    title=_("Workers are heard of, and each job type has one"),
    read=_silent,
    limit=Limit(None, 60),
    says={
        WORKER: _("The worker {name} has been silent for {value}."),
        JOB_TYPE: _("No worker serves the job type {name}."),
    },
    says_now={
        WORKER: _("Worker {name} has been silent for {value}; it holds {held}"),
    },
    shows=time,
    advice={JOB_TYPE: _("Start one with its handler, or connect one over HTTP.")},
    leads={JOB_TYPE: _CONNECT},
    label=_("silent worker, or type that nobody serves"),
    has_target=lambda name: bool(names_among([name]) or Worker.objects.filter(name=name).exists()),
    missing=_("There is no worker and no job type {name} (yet)."),
    severity=WARNING,
    icon="memory",
)
UNSERVED = Watch(
    key="unserved",
    title=_("Few job types lack a worker"),
    read=_unserved,
    leads={JOB_TYPE: _CONNECT},
    severity=WARNING,
    icon="memory",
)
QUIET = Watch(
    key="quiet",
    title=_("No worker is kept quiet"),
    read=_quiet,
    says={WORKER: _("The worker {name} is quiet: it takes nothing new.")},
    leads={WORKER: Way("jobs.operate_job", _("Resume"), act_on("jobs_worker", "resume"))},
    severity=HELD,
    icon="notifications_paused",
)
SWEEP_OVERDUE = RuleWatch(
    key="sweep_overdue",
    title=_("Sweeps come in their periods"),
    read=_sweeps,
    limit=Limit(_MAX_LATE, 60, highest=10_000.0),
    says={
        SWEEP: _("The sweep {name} is late by {value} of its periods; the limit is {limit}."),
    },
    shows="{:.1f}".format,
    severity=WARNING,
    icon="timer_off",
    label=_("overdue sweep"),
    has_target=lambda name: name in current_sheet().periods,
    missing=_("There is no sweep {name}."),
)
SWEEPS_LATE = Watch(
    key="sweeps_late",
    title=_("Few sweeps are late"),
    read=_late,
    severity=WARNING,
    icon="timer_off",
)
BEAT_LATE = Watch(
    key="beat",
    title=_("Beat runs"),
    read=_beat,
    severity=CRITICAL,
    icon="heart_broken",
)
