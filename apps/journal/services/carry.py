"""Carrying the journal to its sinks: one turn of one sink, and its pause and resumption."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db.models import F, Q

from apps.common import clock, ids
from apps.common.db import transactional
from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.common.rows import ensure_row, insert_rows
from apps.common.texts import begin_of
from apps.common.tidy import remove
from apps.journal.conf import SinkAddress, conf
from apps.journal.models import JournalEntry, Sink, SinkReject, Source
from apps.journal.services.follow import Deliver, Position, Seen, follow
from apps.journal.services.lines import lines_between
from apps.journal.services.writing import Entry, write
from apps.journal.sinks import Line, Refused, Unavailable, open_sink
from apps.journal.sinks import Sink as OpenSink

logger = logging.getLogger(__name__)

# After a failure a sink rests for a second, then twice as long each time.
LONGEST_REST = timedelta(minutes=5)
# A sink that is behind for longer is late.
LATE = timedelta(minutes=10)
# A sink that refuses more entries than this in an hour is paused: it is misconfigured.
MAX_REJECTS = 100
KEPT = timedelta(days=30)
_MAX_ERROR = 500
_MAX_DOUBLINGS = 9


def sweep_of(name: str) -> str:
    """The sweep that carries to this sink."""
    return f"journal.sink.{name}"


def sinks() -> Mapping[str, SinkAddress]:
    """The sinks of JOURNAL_SINKS by name."""
    return {each.name: each for each in conf.JOURNAL_SINKS}


def lag(sink: Sink, now: datetime) -> timedelta:
    """How long the oldest entry that the sink lacks has been there; 0 when it lacks none."""
    oldest = JournalEntry.objects.filter(pk__gt=sink.after).order_by("pk").values_list("pk")[:1]
    return max((now - ids.made_at(pk) for (pk,) in oldest), default=timedelta())


def carry(address: SinkAddress, *, until: datetime) -> int:
    """Send what the sink lacks until there is no more or the clock has passed `until`; the number
    of entries it took. A sink that does not answer is left alone for a while."""
    state = _state(address.name)
    now = clock.now()
    if state.is_paused or (state.retry_at is not None and state.retry_at > now):
        return 0
    turn = _Turn(state)
    try:
        with _opened(address) as (sink, seen):
            follow(turn.position, turn.sending(sink), turn.keep, seen=seen, until=until)
    except Unavailable as error:
        turn.note_failure(str(error))
    return turn.sent


def resend(address: SinkAddress, start: datetime, end: datetime) -> Iterator[int]:
    """Send all entries made in [start, end) again, in blocks; yields the number of each block.

    Raises Unavailable; what was sent before stays sent.
    """
    turn = _Turn(_state(address.name))
    with _opened(address) as (sink, _seen):
        deliver = turn.sending(sink)
        for lines in lines_between(ids.lowest_id_at(start), ids.lowest_id_at(end)):
            deliver(lines)
            yield len(lines)


@transactional
def pause(*, sink: Sink, actor: str, reason: str) -> None:
    """Send nothing until `resume`; nothing is lost as long as the journal keeps it."""
    _set_paused(sink, True, actor, reason)


@transactional
def resume(*, sink: Sink, actor: str, reason: str = "") -> None:
    """Go on where it stopped, at once; also when it rests after a failure."""
    _set_paused(sink, False, actor, reason)


def _set_paused(sink: Sink, is_paused: bool, actor: str, reason: str) -> None:
    if is_paused and not reason.strip():
        raise Invalid.field("reason", _("Say why; the journal shows it."))
    row = Sink.objects.filter(pk=sink.pk)
    if is_paused:
        changed = row.filter(is_paused=False)
        was = changed.update(is_paused=True, pause_reason=begin_of(reason, _MAX_ERROR))
    else:
        changed = row.filter(Q(is_paused=True) | Q(failures__gt=0))
        was = changed.update(is_paused=False, pause_reason="", retry_at=None, failures=0)
    if was:
        _write(sink, "sink_paused" if is_paused else "sink_resumed", actor, reason)


def _write(sink: Sink, event: str, actor: str, reason: str) -> None:
    write(
        [
            Entry(
                at=clock.now(),
                source=Source.SINK,
                subject_id=sink.pk,
                event=event,
                type_or_task=sink.name,
                actor=actor,
                reason=reason,
            )
        ]
    )


def _state(name: str) -> Sink:
    """The row of the sink; a new one begins with the present."""
    found = Sink.objects.filter(name=name).first()
    if found is not None:
        return found
    now = clock.now()
    start = Position.at_present(now)
    ensure_row(
        Sink,
        ["name"],
        {
            **{"name": name, "created_at": now, "after": start.after, "counts": {}},
            **{"checked": start.checked, "sent": 0, "rejected": 0, "failures": 0, "error": ""},
            **{"is_paused": False, "pause_reason": ""},
        },
    )
    return Sink.objects.get(name=name)


class _Turn:
    """One turn of a sink: how many entries are `sent`, and the position where the next goes on."""

    def __init__(self, state: Sink) -> None:
        self.sent = 0
        self.position = Position(
            state.after,
            Position.at_present(state.created_at).since,
            state.checked,
            {int(minute): count for minute, count in state.counts.items()},
        )
        self._state = state
        self._new = self._refused = 0

    def sending(self, sink: OpenSink) -> Deliver:
        """Deliver lines to the sink, without those that it refuses for good."""

        def deliver(lines: Sequence[Line]) -> None:
            try:
                sink.deliver(lines)
            except Refused as refused:
                self._part(deliver, lines, refused)
            else:
                self._new += len(lines)

        return deliver

    def _part(self, deliver: Deliver, lines: Sequence[Line], refused: Refused) -> None:
        errors = refused.errors or ({lines[0].id: str(refused)} if len(lines) == 1 else {})
        if not errors:
            # It is not known which; halving finds them.
            half = len(lines) // 2
            deliver(lines[:half])
            deliver(lines[half:])
            return
        self._new += len(lines) - len(errors)
        self._keep_rejects(lines, errors)

    def _keep_rejects(self, lines: Sequence[Line], errors: Mapping[int, str]) -> None:
        """Keep those that are not kept yet: a block that is sent again goes through in the end."""
        kept = SinkReject.objects.filter(sink=self._state.name, entry_id__in=[*errors])
        new = errors.keys() - set(kept.values_list("entry_id", flat=True))
        if not new:
            return
        now = clock.now()
        rows = [
            {
                **{"sink": self._state.name, "entry_id": line.id, "at": now},
                **{"error": begin_of(errors[line.id], _MAX_ERROR), "body": line.text},
            }
            for line in lines
            if line.id in new
        ]
        insert_rows(SinkReject, rows)
        self._refused += len(rows)
        logger.warning("sink %s refused %d entries for good", self._state.name, len(rows))
        lately = SinkReject.objects.filter(sink=self._state.name, at__gt=now - timedelta(hours=1))
        if lately.count() > MAX_REJECTS:
            text = f"It refused more than {MAX_REJECTS} entries in an hour: {rows[0]['error']}"
            pause(sink=self._state, actor="", reason=begin_of(text, _MAX_ERROR))
            raise Unavailable(text)

    def keep(self) -> None:
        """Save how far the sink has got."""
        self._save(failures=0, retry_at=None, error="", delivered_at=clock.now())

    def note_failure(self, error: str) -> None:
        """Save how far the sink has got and its error, and leave the sink alone for a while."""
        rest = timedelta(seconds=2 ** min(self._state.failures, _MAX_DOUBLINGS))
        self._save(
            failures=F("failures") + 1,
            retry_at=clock.now() + min(rest, LONGEST_REST),
            error=begin_of(error, _MAX_ERROR),
        )
        logger.warning("sink %s does not take the journal: %s", self._state.name, error)

    def _save(self, **columns: object) -> None:
        Sink.objects.filter(pk=self._state.pk).update(
            after=self.position.after,
            checked=self.position.checked,
            counts=self.position.counts,
            sent=F("sent") + self._new,
            rejected=F("rejected") + self._refused,
            **columns,
        )
        self.sent += self._new
        self._new = self._refused = 0


# --- open sinks ---------------------------------------------------------------------------------
_open: dict[SinkAddress, OpenSink] = {}
_seen: dict[SinkAddress, Seen] = {}
_opening = threading.Lock()


@contextmanager
def _opened(address: SinkAddress) -> Iterator[tuple[OpenSink, Seen]]:
    """The sink, which stays open in this process until it fails."""
    with _opening:
        sink = _open.get(address) or open_sink(address)
        _open[address] = sink
        seen = _seen.setdefault(address, Seen())
    try:
        yield sink, seen
    except Exception:
        with _opening:
            _open.pop(address, None)
        sink.close()
        raise


def forget_rejects(now: datetime) -> int:
    """Remove the entries that sinks refused a month ago; returns how many."""
    return remove(SinkReject.objects.filter(at__lt=now - KEPT).order_by("at"))
