"""Sinks that hold back what is past its retention, are late, or refuse entries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from apps.common import clock, ids
from apps.common.errors import Conflict, NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.journal.models import Sink, SinkReject
from apps.journal.services import carry, retention
from apps.reports.services.standing import Standing
from apps.reports.watches.base import Fix, Reading, Watch
from apps.reports.watches.subjects import SINK

LATE = timedelta(minutes=10)
LATELY = timedelta(days=1)
MAX_COUNTED = 1_000
_MAX_ERROR = 200
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def _holding_back(sheet: Standing) -> Iterator[Reading]:
    now = sheet.now
    before = retention.horizon(now)
    for name, after in retention.lacking(now):
        sink = Sink(name=name, after=after)
        # A sink that has all is not late, however long ago the last entry came.
        if before is not None and carry.lag(sink, now) > now - before:
            text = _(
                "Sink {name} lacks entries since {at} that are past their retention. They are kept "
                "for it {days} days longer at most, and are then gone.",
                name=name,
                at=ids.made_at(after),
                days=retention.SINK_KEEPS // _DAY,
            )
            yield Reading(SINK, name, text=text)


def _late(sheet: Standing) -> Iterator[Reading]:
    now = sheet.now
    known = carry.sinks()
    rows = Sink.objects.filter(name__in=known).order_by("name") if known else []
    for sink in rows:
        lag = carry.lag(sink, now)
        if lag > LATE:
            text = _(
                "Sink {name} is {minutes} minutes behind. {why}",
                name=sink.name,
                minutes=lag // _MINUTE,
                why=_why(sink),
            )
            yield Reading(SINK, sink.name, text=text)
    yield from _refusing(now)


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


def _sink(name: str) -> Sink:
    sink = Sink.objects.filter(name=name).first()
    if sink is None:
        raise NotFound(_("There is no sink {name}.", name=name[:80]))
    return sink


def _foresee_sending(subject: str) -> Message:
    sink = _sink(subject)
    if not sink.is_paused and not sink.failures:
        return _("Sink {name} sends already; look at its page and its log.", name=sink.name)
    return _(
        "Sink {name} goes on at once, with the entries after {at}: {minutes} minutes of them.",
        name=sink.name,
        at=ids.made_at(sink.after),
        minutes=carry.lag(sink, clock.now()) // _MINUTE,
    )


def _send_on(subject: str, actor: str, reason: str) -> Message:
    sink = _sink(subject)
    if not sink.is_paused and not sink.failures:
        raise Conflict(_("Sink {name} sends already; look at its page and its log.", name=subject))
    carry.resume(sink=sink, actor=actor, reason=reason)
    return _("Sink {name} sends on.", name=sink.name)


_SEND_ON = Fix(
    label=_("Send on"), permission="journal.change_sink", foresee=_foresee_sending, act=_send_on
)
HOLDING_BACK = Watch(
    key="G4",
    title=_("No sink holds back what is past its retention"),
    read=_holding_back,
    fix=_SEND_ON,
)
LATE_SINKS = Watch(
    key="G5", title=_("Sinks get the journal in time, and all of it"), read=_late, fix=_SEND_ON
)
