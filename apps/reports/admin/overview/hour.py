"""The last minutes and the last hour of jobs and of dispatches, as figures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db import models
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.html import list_url
from apps.common.zones import offset_name
from apps.dispatch.models import Dispatch
from apps.jobs.admin.labels import capped
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.tiles import DANGER, WARNING, Panel, Tile, rate
from apps.reports.rules.outcomes import DISPATCH, JOB, TOTAL
from apps.reports.services import flow
from apps.reports.services.choice import stamp
from apps.reports.services.columns import FINALLY, JOBS, duration, percent
from apps.reports.services.flow import Flow
from apps.reports.services.lately import Ended, last_hours
from apps.reports.services.standing import Standing

_TITLES = {JOB: _("Jobs, last hour"), DISPATCH: _("Dispatches, last hour")}
_MODELS: dict[str, type[models.Model]] = {JOB: Job, DISPATCH: Dispatch}
_BY = {JOB: "type", DISPATCH: "task"}
_CAME = {JOB: _("in"), DISPATCH: pgettext_lazy("how many", "handed out")}
# Reports count each attempt at a job as an end, too.
ENDED: dict[str, str | Promise] = {JOB: JOBS.title, DISPATCH: _("ended")}
# What the journal counts as an end.
_COUNTED = {JOB: FINALLY, DISPATCH: TOTAL}
# A success rate that fell by this much since the hour before is marked.
_NOTABLE = 0.05


def panels(sight: Sight, status: Standing, sources: list[str], until: datetime) -> dict[str, Panel]:
    """A panel for each of these sources; the hour ends at `until`."""
    ended = last_hours(status.stored, sources, executors=sight.executors)
    flows = dict(status.flows)
    if sight.is_limited(DISPATCH):
        own = flow.flows(
            [DISPATCH], status.now, status.stored, status.unsummed, executors=sight.executors
        )
        flows |= own
    return {
        source: Panel(
            key=f"hour-{source}",
            title=_TITLES[source],
            tiles=[
                *_minutes(source, flows[source], status.now),
                *_hour(sight, source, *ended[source], until),
            ],
        )
        for source in sources
    }


def report_url(source: str, by: str, until: datetime) -> str:
    """The address of the report of the hour up to an instant."""
    period = {"from": stamp(until - timedelta(hours=1)), "to": stamp(until)}
    return f"{reverse('report')}?{urlencode({'source': source, 'by': by, **period})}"


# --- what comes and goes --------------------------------------------------------------------------
def _minutes(source: str, found: Flow, now: datetime) -> Iterator[Tile]:
    between = {"since": stamp(found.since)}
    if found.until < now:
        between["until"] = stamp(found.until)
    if found.came is not None:
        yield Tile(
            key=f"{source}-in",
            title=_CAME[source],
            value=rate(found.came, found.minutes, flow.MAX_CAME),
            url=list_url(_MODELS[source], **between),
            notes=(_many(source, found.came, flow.MAX_CAME), _span(found, now)),
        )
    yield Tile(
        key=f"{source}-out",
        title=_("out"),
        value=rate(found.ended, found.minutes),
        url=list_url(JournalEntry, source=source, counted=_COUNTED[source], **between),
        notes=(_many(source, found.ended), _span(found, now)),
    )


def _many(source: str, count: int, limit: int | None = None) -> str:
    text = f"{count:,}" if limit is None else capped(count, limit)
    if source == JOB:
        return ngettext("%s job", "%s jobs", count) % text
    return ngettext("%s dispatch", "%s dispatches", count) % text


def _span(found: Flow, now: datetime) -> str:
    """Since when they were counted, or up to when, where that is not now."""
    if found.until < now:
        return gettext("as of %s") % clock_time(found.until)
    return gettext("since %s") % clock_time(found.since)


def clock_time(instant: datetime) -> str:
    local = localtime(instant)
    return f"{local:%H:%M} {offset_name(local)}"


# --- the hour, and the one before -----------------------------------------------------------------
def _hour(sight: Sight, source: str, last: Ended, before: Ended, until: datetime) -> Iterator[Tile]:
    report = report_url(source, "executor" if sight.is_limited(source) else _BY[source], until)
    attempts = ngettext("%s attempt", "%s attempts", last.attempts) % f"{last.attempts:,}"
    yield Tile(
        key=f"{source}-ended",
        title=ENDED[source],
        value=f"{last.ended:,}",
        url=report,
        notes=(attempts if source == JOB else "", _before(f"{before.ended:,}")),
    )
    yield Tile(
        key=f"{source}-success",
        title=_("succeeded"),
        value=percent(last.success_rate),
        url=report,
        notes=(_before(percent(before.success_rate)),),
        tone=_tone(last.success_rate, before.success_rate),
    )
    for key, title, now, then in (
        ("wait", _("wait p95"), last.wait_p95, before.wait_p95),
        ("run", _("run p95"), last.run_p95, before.run_p95),
    ):
        yield Tile(
            key=f"{source}-{key}",
            title=title,
            value=duration(now),
            url=report,
            notes=(_before(duration(then)),),
        )


def _before(text: str) -> str:
    return gettext("hour before: %s") % text


def _tone(last: float | None, before: float | None) -> str:
    if last is None or last > 0.99:
        return ""
    if last < 0.5:
        return DANGER
    return WARNING if before is not None and before - last >= _NOTABLE else ""
