"""Sinks that hold back what is past its retention, are late, or refuse entries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from apps.common import ids
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.journal.models import Sink, SinkReject
from apps.journal.services import carry, retention
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import Reading, Watch
from apps.reports.watches.subjects import SINK, Way, act_on

LATELY = timedelta(days=1)
MAX_COUNTED = 1_000
_MAX_ERROR = 200
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def _holding_back(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    before = retention.horizon(now)
    lacking = [name for name, _after in retention.lacking(now)]
    for sink in Sink.objects.filter(name__in=lacking).order_by("name") if lacking else ():
        # A sink that has all is not late, however long ago the last entry came.
        if before is not None and carry.lag(sink, now) > now - before:
            text = _(
                "Sink {name} lacks entries since {at} that are past their retention. They are kept "
                "for it {days} days longer at most, and are then gone.",
                name=sink.name,
                at=ids.made_at(sink.after),
                days=retention.SINK_KEEPS // _DAY,
            )
            yield Reading(SINK, sink.name, text=text, row=_stopped(sink))


def _late(sheet: FactSheet) -> Iterator[Reading]:
    now = sheet.now
    known = carry.sinks()
    rows = Sink.objects.filter(name__in=known).order_by("name") if known else []
    for sink in rows:
        lag = carry.lag(sink, now)
        if lag > carry.LATE:
            text = _(
                "Sink {name} is {minutes} minutes behind. {why}",
                name=sink.name,
                minutes=lag // _MINUTE,
                why=_why(sink),
            )
            yield Reading(SINK, sink.name, text=text, row=_stopped(sink))
    yield from _refusing(now)


def _stopped(sink: Sink) -> int | None:
    """The number of the sink if there is something to resume."""
    return sink.pk if sink.is_paused or sink.failures else None


def _why(sink: Sink) -> Message:
    if sink.is_paused:
        return _("It is paused: {reason}", reason=sink.pause_reason[:_MAX_ERROR])
    if sink.failures:
        return _("It fails: {error}", error=sink.error[:_MAX_ERROR])
    return _("It takes less than comes, or its sweep does not run.")


def _refusing(now: datetime) -> Iterator[Reading]:
    lately = SinkReject.objects.filter(at__gt=now - LATELY).order_by("at")
    names = list(lately.values_list("sink", flat=True)[: MAX_COUNTED + 1])
    for name in sorted(set(names)):
        text = _(
            "Entries that sink {name} refused in the last 24 hours: {count}. Their page says why.",
            name=name,
            count=names.count(name),
        )
        yield Reading(SINK, name, text=text)


_SEND_ON = {SINK: Way("journal.change_sink", _("Resume"), act_on("journal_sink", "resume"))}
HOLDING_BACK = Watch(
    key="G4",
    title=_("No sink holds back what is past its retention"),
    read=_holding_back,
    leads=_SEND_ON,
)
LATE_SINKS = Watch(
    key="G5",
    title=_("Sinks get the journal in time, and all of it"),
    read=_late,
    leads=_SEND_ON,
)
