"""Workers that are silent, quiet or lacking, and sweeps that do not come."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse

from apps.common.messages import Message as _
from apps.jobs.models import Worker
from apps.jobs.services.types import names_among
from apps.reports.rules.limits import Limit
from apps.reports.services.standing import Standing, standing
from apps.reports.watches.base import Reading, RuleWatch, Watch, time
from apps.reports.watches.subjects import JOB_TYPE, SWEEP, WORKER, Way


def _silent(sheet: Standing) -> Iterator[Reading]:
    for worker in sheet.lost_workers:
        silent = (sheet.now - worker.last_heartbeat_at).total_seconds()
        yield Reading(WORKER, worker.name, silent, row=worker.pk)
    for type_ in sheet.unserved:
        yield Reading(JOB_TYPE, type_.name, 0.0, row=type_.pk)


def _quiet(sheet: Standing) -> Iterator[Reading]:
    for worker in sheet.quiet_workers:
        yield Reading(WORKER, worker.name, row=worker.pk)


def _sweeps(sheet: Standing) -> Iterator[Reading]:
    for sweep in sheet.sweeps:
        if sweep.overdue is not None:
            late = sweep.overdue.total_seconds() / sheet.periods[sweep.name]
            yield Reading(SWEEP, sweep.name, late)


WORKER_SILENT = RuleWatch(
    key="worker_silent",
    title=_("Workers are heard of, and each job type has one"),
    read=_silent,
    limit=Limit(None, 60),
    says={
        WORKER: _("The worker {name} has been silent for {value}."),
        JOB_TYPE: _("No worker serves the job type {name}."),
    },
    shows=time,
    advice={JOB_TYPE: _("Start one with its handler, or connect one over HTTP.")},
    leads={
        JOB_TYPE: Way(
            "jobs.view_jobtype",
            _("How to connect a worker"),
            lambda *_type: f"{reverse('admin:jobs_jobtype_handlers')}#connect",
        )
    },
    label=_("silent worker, or type that nobody serves"),
    has_target=lambda name: bool(names_among([name]) or Worker.objects.filter(name=name).exists()),
    missing=_("There is no worker and no job type {name} (yet)."),
    is_urgent=True,
)
QUIET = Watch(
    key="quiet",
    title=_("No worker is kept quiet"),
    read=_quiet,
    says={WORKER: _("The worker {name} is quiet: it takes nothing new.")},
    is_urgent=True,
)
SWEEP_OVERDUE = RuleWatch(
    key="sweep_overdue",
    title=_("Sweeps come in their periods"),
    read=_sweeps,
    limit=Limit(3.0, 60, highest=10_000.0),
    says={
        SWEEP: _("The sweep {name} is late by {value} of its periods; the limit is {limit}."),
    },
    shows="{:.1f}".format,
    label=_("overdue sweep"),
    has_target=lambda name: name in standing().periods,
    missing=_("There is no sweep {name}."),
)
