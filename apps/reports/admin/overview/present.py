"""The part of the overview that changes all the time: the present state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.admin.html import attribute, list_url, page_url
from apps.common.leases import SweepRun
from apps.dispatch.models import Dispatch
from apps.jobs.admin.labels import age, capped, relative
from apps.jobs.conf import conf
from apps.jobs.models import Job, Worker
from apps.jobs.services import counts, living
from apps.reports.admin.overview import planner
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.tiles import (
    DANGER,
    WARNING,
    Panel,
    Tile,
)
from apps.reports.rules.outcomes import DISPATCH
from apps.reports.services.standing import Standing
from apps.reports.watches.database import MAX_DRIFT

MAX_COUNTED = 5_000
# The sweep closes overdue dispatches within this time.
_CLOSED_WITHIN = timedelta(seconds=30)
# Inside the folded details, so that browsers unfold them.
_SWEEPS = "#overview-each-sweep"


# --- jobs and dispatches --------------------------------------------------------------------------
def jobs(sight: Sight, status: Standing) -> Panel:
    states = Job.Status
    found = _totals(sight, status)
    tiles = [
        Tile(
            key=f"jobs-{state}",
            title=state.label,
            value=capped(count, MAX_COUNTED),
            url=list_url(Job, status=state),
            tone=DANGER if state == states.FAILED and count else "",
        )
        for state in (states.READY, states.SCHEDULED, states.RUNNING, states.FAILED)
        if (count := found.get(state)) is not None
    ]
    tiles.insert(1, _oldest_due(sight, status, has_ready=bool(found[states.READY])))
    return Panel(key="jobs", title=_("Jobs now"), tiles=tiles)


def _totals(sight: Sight, status: Standing) -> dict[str, int]:
    """By state; those that are too many to count are left out."""
    if sight.job_types is None:
        return status.jobs(MAX_COUNTED)._asdict()
    return counts.totals_of(sight.job_types, MAX_COUNTED)


def _oldest_due(sight: Sight, status: Standing, *, has_ready: bool) -> Tile:
    key, title = "jobs-due", _("longest due")
    due = _longest_due(sight, status) if has_ready else None
    if due is None:
        return Tile(key=key, title=title, value="–", url=list_url(Job, status=Job.Status.READY))
    is_paused = any(each.name == due.type and each.is_paused(status.now) for each in status.types)
    is_late = status.now - due.since > timedelta(seconds=conf.JOB_STARVATION_SECONDS)
    name = shown_text(due.type)
    return Tile(
        key=key,
        title=title,
        value=age(due.since, status.now),
        url=page_url(Job, due.number)
        if due.number
        else list_url(Job, status=Job.Status.READY, type=due.type),
        notes=(gettext("%s, paused") % name if is_paused else name,),
        tone=WARNING if is_late and not is_paused else "",
    )


def _longest_due(sight: Sight, status: Standing) -> counts.DueJob | None:
    """Without its number for those who see some types only."""
    if sight.job_types is None:
        return status.oldest_due
    found = counts.oldest_due(sight.job_types)
    due = (counts.DueJob(0, name, since) for name, since in found.items())
    return min(due, key=lambda each: each.since, default=None)


def dispatches(sight: Sight, status: Standing) -> Panel:
    is_limited = sight.is_limited(DISPATCH)
    count, deadline = _limited(sight) if is_limited else status.open_dispatches(MAX_COUNTED)
    url = list_url(Dispatch, state=Dispatch.State.OPEN)
    is_over = deadline is not None and status.now - deadline > _CLOSED_WITHIN
    tiles = [
        Tile(
            key="dispatches-open",
            title=_("open dispatches"),
            value=capped(count, MAX_COUNTED),
            url=url,
        ),
        Tile(
            key="dispatches-deadline",
            title=_("next deadline"),
            value="–" if deadline is None else relative(deadline, status.now),
            url=url,
            tone=DANGER if is_over else "",
        ),
        *planner.tiles(sight),
    ]
    return Panel(key="dispatches", title=_("Dispatches now"), tiles=tiles)


def _limited(sight: Sight) -> tuple[int, datetime | None]:
    is_open = sight.dispatches.filter(state=Dispatch.State.OPEN)
    first = is_open.aggregate(at=Min("deadline_at"))["at"]
    return is_open.order_by()[:MAX_COUNTED].count(), first


# --- processes ------------------------------------------------------------------------------------
def processes(sight: Sight, status: Standing) -> dict[str, Any]:
    """The panel, and a row for each sweep."""
    tiles: list[Tile] = []
    sweeps: list[SafeString] = []
    if sight.may("jobs.view_worker"):
        tiles += _workers(status)
    if sight.may("common.view_sweeplease"):
        tiles += _beat(status)
        tiles.append(_clock())
        sweeps = [_drawn(each, status) for each in status.sweeps]
    panel = Panel(key="processes", title=_("Processes"), tiles=tiles)
    return {"panel": panel if tiles else None, "sweeps": sweeps}


def _workers(status: Standing) -> Iterator[Tile]:
    active, quiet = status.active_workers, len(status.quiet_workers)
    last = max((each.last_heartbeat_at for each in status.workers), default=None)
    # One may have come since.
    ago = "" if last is None else relative(min(last, status.now), status.now)
    notes = [gettext("heartbeat %s") % ago] if ago else []
    if quiet:
        notes.append(ngettext("%d quiet", "%d quiet", quiet) % quiet)
    yield Tile(
        key="workers",
        title=_("live workers"),
        value=f"{len(active):,}",
        url=list_url(Worker, state=Worker.State.ACTIVE),
        notes=tuple(notes),
        tone="" if active else DANGER,
    )
    slots = living.slots(active)
    yield Tile(
        key="slots",
        title=_("busy slots"),
        value=gettext("%(busy)d of %(slots)d")
        % {"busy": slots.total - slots.free, "slots": slots.total},
        url=list_url(Worker, state=Worker.State.ACTIVE),
    )


def _beat(status: Standing) -> Iterator[Tile]:
    last, is_late = status.last_beat, status.is_beat_late
    yield Tile(
        key="beat",
        title=_("beat"),
        value=gettext("never") if last is None else relative(last, status.now),
        url=_SWEEPS,
        notes=(gettext("start beat: no sweep runs") if is_late else "",),
        tone=DANGER if is_late else "",
    )
    late = sum(status.is_overdue(each) for each in status.sweeps)
    yield Tile(
        key="late-sweeps",
        title=_("sweeps overdue"),
        value=gettext("%(late)d of %(all)d") % {"late": late, "all": len(status.sweeps)},
        url=_SWEEPS,
        tone=WARNING if late else "",
    )


def _drawn(sweep: SweepRun, status: Standing) -> SafeString:
    """A row of the table of sweeps."""
    began = "–" if sweep.started_at is None else relative(sweep.started_at, status.now)
    took = "–" if sweep.duration_ms is None else gettext("%d ms") % sweep.duration_ms
    late = ""
    if status.is_overdue(sweep):
        late, began = "overview-late", f"{began} · {gettext('overdue')}"
    cells = (sweep.name, gettext("%d s") % status.periods[sweep.name], began, took)
    return format_html(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", attribute("class", late), *cells
    )


def _clock() -> Tile:
    ahead = clock.drift()
    return Tile(
        key="clock",
        title=_("clock drift"),
        # The sum with zero is never -0.0.
        value=gettext("%+.1f s") % (round(ahead.total_seconds(), 1) + 0.0),
        notes=(gettext("to the database"),),
        tone=WARNING if abs(ahead) > MAX_DRIFT else "",
    )
