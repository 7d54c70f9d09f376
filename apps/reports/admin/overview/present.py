"""The part of the overview that changes all the time: the present state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min
from django.utils.formats import localize
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.leases import BEAT_SILENCE, Turn, last_beat, turns
from apps.dispatch.models import Dispatch
from apps.jobs.admin.labels import age, capped, relative
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.jobs.rules import breaker
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import counts, facts
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.tiles import (
    DANGER,
    WARNING,
    Link,
    Notice,
    Panel,
    Tile,
    listed,
    row_of,
)
from apps.reports.rules.outcomes import DISPATCH

MAX_COUNTED = 5_000
# So far from the database's, a machine's clock makes its logs and certificates wrong; nothing is
# decided by it.
NOTABLE_DRIFT = timedelta(seconds=2)
# Closing what is past its deadline takes a sweep or two.
_CLOSED_WITHIN = timedelta(seconds=30)
_LATE = timedelta(seconds=5)
# Inside what is folded away, so that browsers unfold it.
_SWEEPS = "#overview-each-sweep"


# --- jobs and dispatches --------------------------------------------------------------------------
def jobs(types: Sequence[TypeSnapshot], now: datetime) -> Panel:
    found = counts.standing(MAX_COUNTED)
    words = Job.Status
    tiles = [
        Tile(
            key=f"jobs-{status}",
            title=status.label,
            value=capped(count, MAX_COUNTED),
            url=listed(Job, status=status),
            tone=DANGER if status == words.FAILED and count else "",
        )
        for status, count in (
            (words.READY, found.ready),
            (words.SCHEDULED, found.scheduled),
            (words.RUNNING, found.running),
            (words.FAILED, found.failed),
        )
    ]
    due = counts.longest_due([each.name for each in types]) if found.ready else None
    tiles.insert(1, _longest_due(due, {each.name: each for each in types}, now))
    return Panel(key="jobs", title=_("Jobs now"), tiles=tiles)


def _longest_due(due: counts.Due | None, types: Mapping[str, TypeSnapshot], now: datetime) -> Tile:
    key, title = "jobs-due", _("longest due")
    if due is None:
        return Tile(key=key, title=title, value="–", url=listed(Job, status=Job.Status.READY))
    is_paused = due.type in types and types[due.type].is_paused(now)
    is_late = now - due.since > timedelta(seconds=conf.JOB_STARVATION_SECONDS)
    name = shown_text(due.type)
    return Tile(
        key=key,
        title=title,
        value=age(due.since, now),
        url=row_of(Job, due.number),
        note=gettext("%s, paused") % name if is_paused else name,
        tone=WARNING if is_late and not is_paused else "",
    )


def dispatches(sight: Sight, now: datetime) -> Panel:
    everywhere = Dispatch.objects.in_flight
    count, deadline = _limited(sight) if sight.is_limited(DISPATCH) else everywhere(MAX_COUNTED)
    url = listed(Dispatch, state=Dispatch.State.OPEN)
    is_over = deadline is not None and now - deadline > _CLOSED_WITHIN
    tiles = [
        Tile(
            key="dispatches-open",
            title=_("in hand"),
            value=capped(count, MAX_COUNTED),
            url=url,
        ),
        Tile(
            key="dispatches-deadline",
            title=_("next deadline"),
            value="–" if deadline is None else relative(deadline, now),
            url=url,
            tone=DANGER if is_over else "",
        ),
    ]
    return Panel(key="dispatches", title=_("Dispatches now"), tiles=tiles)


def _limited(sight: Sight) -> tuple[int, datetime | None]:
    is_open = sight.dispatches.filter(state=Dispatch.State.OPEN)
    first = is_open.aggregate(at=Min("deadline_at"))["at"]
    return is_open.order_by()[:MAX_COUNTED].count(), first


# --- processes ------------------------------------------------------------------------------------
def processes(
    sight: Sight, workers: Sequence[Worker] | None, periods: Mapping[str, float], now: datetime
) -> dict[str, Any]:
    """The panel, the notices, and the sweeps one by one; `workers` None are not to be seen."""
    tiles: list[Tile] = []
    notices: list[Notice] = []
    sweeps: list[SafeString] = []
    if workers is not None:
        tiles += _workers(workers, now)
        notices += _silent(workers, now)
    if sight.may("common.view_sweeplease"):
        found = turns(periods, now)
        tiles += _beat(found, periods, now)
        tiles.append(_clock())
        sweeps = [_drawn(turn, periods, now) for turn in found]
    panel = Panel(key="processes", title=_("Processes"), tiles=tiles)
    return {"panel": panel if tiles else None, "notices": notices, "sweeps": sweeps}


def _workers(workers: Sequence[Worker], now: datetime) -> Iterator[Tile]:
    alive = [each for each in workers if not facts.is_lost(each, now)]
    active = [each for each in alive if each.state == Worker.State.ACTIVE]
    last = max((each.last_heartbeat_at for each in workers), default=None)
    yield Tile(
        key="workers",
        title=_("live workers"),
        value=f"{len(active):,}",
        url=listed(Worker, state=Worker.State.ACTIVE),
        note="" if last is None else gettext("heartbeat %s") % relative(last, now),
        tone="" if active else DANGER,
    )
    slots = facts.slots(active)
    yield Tile(
        key="places",
        title=_("busy slots"),
        value=gettext("%(busy)d of %(slots)d")
        % {"busy": slots.total - slots.free, "slots": slots.total},
        url=listed(Worker, state=Worker.State.ACTIVE),
    )


def _silent(workers: Sequence[Worker], now: datetime) -> Iterator[Notice]:
    silent = [each for each in workers if facts.is_lost(each, now)]
    if silent:
        links = [
            Link(
                name=shown_text(each.name),
                url=row_of(Worker, each.id),
                note=relative(each.last_heartbeat_at, now),
            )
            for each in silent[:20]
        ]
        yield Notice(key="silent", text=_("Lost workers:"), links=links)


def _beat(found: Sequence[Turn], periods: Mapping[str, float], now: datetime) -> Iterator[Tile]:
    last = last_beat(found)
    is_silent_now = last is None or now - last > BEAT_SILENCE
    yield Tile(
        key="beat",
        title=_("beat"),
        value=gettext("never") if last is None else relative(last, now),
        url=_SWEEPS,
        note=gettext("start beat: no sweep runs") if is_silent_now else "",
        tone=DANGER if is_silent_now else "",
    )
    late = sum(_is_late(turn, periods) for turn in found)
    yield Tile(
        key="late-sweeps",
        title=_("sweeps overdue"),
        value=gettext("%(late)d of %(all)d") % {"late": late, "all": len(found)},
        url=_SWEEPS,
        tone=WARNING if late else "",
    )


def _is_late(turn: Turn, periods: Mapping[str, float]) -> bool:
    """One period late, and not only by the second that any start may take."""
    grace = max(_LATE, timedelta(seconds=periods[turn.name]))
    return turn.overdue is not None and turn.overdue > grace


def _drawn(turn: Turn, periods: Mapping[str, float], now: datetime) -> SafeString:
    """A row of the table of sweeps."""
    began = "–" if turn.started_at is None else relative(turn.started_at, now)
    took = "–" if turn.duration_ms is None else gettext("%d ms") % turn.duration_ms
    late = ""
    if _is_late(turn, periods):
        late, began = ' class="overview-late"', f"{began} · {gettext('overdue')}"
    cells = (turn.name, gettext("%d s") % periods[turn.name], began, took)
    return SafeString(f"<tr{late}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")


def _clock() -> Tile:
    ahead = clock.drift()
    return Tile(
        key="clock",
        title=_("clock drift"),
        value=gettext("%+.1f s") % ahead.total_seconds(),
        note=gettext("against the database"),
        tone=WARNING if abs(ahead) > NOTABLE_DRIFT else "",
    )


# --- types that do not run ------------------------------------------------------------------------
def held_back(types: Sequence[TypeSnapshot], now: datetime) -> Iterator[Notice]:
    """Pauses with reason and end, and breakers that are not closed."""
    paused = [each for each in types if each.is_paused(now)]
    if paused:
        links = [Link(name=each.name, url=_page(each), note=_pause(each)) for each in paused]
        yield Notice(key="paused", text=_("Paused job types:"), links=links)
    words = dict(TypeState.Breaker.choices)
    named = {each.name: each for each in types}
    links = []
    for name, found in facts.breakers(types, now).items():
        if found.state == breaker.CLOSED:
            continue
        text: str | Promise = words[TypeState.Breaker(found.state)]
        if found.probe_at is not None:
            text = gettext("open, first probe %s") % relative(found.probe_at, now)
        links.append(Link(name=name, url=_page(named[name]), note=str(text)))
    if links:
        yield Notice(key="breakers", text=_("Breakers that are not closed:"), links=links)


def _page(known: TypeSnapshot) -> str:
    return row_of(JobType, known.pk)


def _pause(known: TypeSnapshot) -> str:
    reason = shown_text(known.pause_reason, limit=200)
    if known.paused_until is None:
        return reason
    until = gettext("until %s") % localize(localtime(known.paused_until))
    return f"{until}: {reason}" if reason else until
