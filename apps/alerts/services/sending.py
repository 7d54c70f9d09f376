"""Sending one delivery: a request or a mail, and what became of it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from django.db import InterfaceError, OperationalError, connection
from django.db.models import F, Q

from apps.alerts.channels.contract import (
    FAIL,
    OK,
    RETRY,
    UNSURE,
    WAIT,
    Answer,
    Message,
    Verdict,
)
from apps.alerts.models import MAX_ANSWER, Channel, Delivery, Event
from apps.alerts.services import report_message, silence
from apps.alerts.services.calling import called
from apps.alerts.services.messages import message_in
from apps.alerts.services.notify import policy
from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.db import repeatable
from apps.common.error_lines import line_of_error
from apps.common.errors import PlatformError
from apps.common.messages import Message as _
from apps.common.shaped import Misshapen
from apps.common.texts import begin_of
from apps.jobs.rules.backoff import asked_seconds, backoff_seconds

logger = logging.getLogger(__name__)

# Longer than any try takes: whoever has not ended by then has died.
AT_MOST = timedelta(seconds=60)
# Older news are none: nothing waits longer, such as that of a platform that stood still.
LONGEST = timedelta(days=1)
TOO_LATE = _("It was not sent within a day.")
GONE = _("The delivery does not exist any more: its rule or channel was deleted.")
BEING_SENT = _("Somebody else is sending it.")
NOT_TAKEN = _("The message was not taken.")
REFUSED = _("The message was refused.")
# The letters of the shortest key of a bot: shorter parts of addresses are words.
_MIN_KEY = 8
# Attempts if the other side refuses a message for a reason that its documentation leaves open.
UNSURE_TRIES = 3
_AWAY_SECONDS = 1.0
# Somebody looks at what becomes of a test, and a report has the tries of its own job.
_NEVER_WAIT = (Event.TEST, Event.REPORT)

Steps: TypeAlias = Generator[Callable[[], Answer], Answer, Verdict | None]


def send(delivery: Delivery, *, attempt: int, is_last: bool) -> Verdict | None:
    """Send the delivery and keep what became of it; None when somebody else does or has done so.

    Returns OK, RETRY or FAIL with what the other side says; FAIL in any case when this attempt is
    the last one. It names when to try again, and counts up to the longest delay of deliveries.
    WAIT when nothing was tried, because the server of the channel does not answer at present.
    """
    steps = sending(delivery, attempt=attempt, is_last=is_last)
    try:
        call = next(steps)
        try:
            answer = call()
        except Exception as error:
            steps.throw(error)
            raise
        steps.send(answer)
    except StopIteration as end:
        verdict: Verdict | None = end.value
        return verdict
    raise AssertionError("unreachable")


def sending(delivery: Delivery, *, attempt: int, is_last: bool, asks: bool = False) -> Steps:
    """The steps of `send`: yields the call of the server, which needs no database, and is sent its
    answer. `asks`: also a server that has not answered lately."""
    if delivery.event not in _NEVER_WAIT:
        later = silence.waits_until(delivery.channel_id, asks=asks)
        if later is not None:
            return _put_off(delivery, later)
    until = _take(delivery)
    if until is None:
        return None
    backoff = policy().backoff
    next_at = _in(backoff_seconds(backoff, attempt, chance=1.0))
    mine = Delivery.objects.filter(pk=delivery.pk, taken_until=until)
    try:
        if isinstance(message := _message_of(delivery), Verdict):
            code, verdict = None, message
        else:
            began = clock.now()
            code, verdict = yield partial(called, delivery.channel, _readable(message), began)
            took = clock.now() - began
            _insist(lambda: silence.note(delivery.channel_id, verdict, took), until)
    except Exception:
        mine.update(taken_until=None, next_at=next_at)
        raise
    wait = None
    if verdict.wait is not None:
        wait = asked_seconds(backoff, attempt, verdict.wait)
        next_at = _in(wait)
    text = begin_of(_without_secrets(delivery.channel, verdict.text), MAX_ANSWER)
    outcome = verdict.outcome
    if outcome == UNSURE:
        outcome = RETRY if attempt < UNSURE_TRIES else FAIL
    if outcome == RETRY and is_last:
        outcome = FAIL
    states = {OK: Delivery.State.SENT, FAIL: Delivery.State.FAILED}
    # A message that was taken is recorded even if that took so long that somebody else has begun.
    rows = Delivery.objects.filter(pk=delivery.pk) if outcome == OK else mine
    became = {
        "state": states.get(outcome, Delivery.State.WAITING),
        "code": code,
        "answer": text,
        "taken_until": None,
        "next_at": next_at if outcome == RETRY else None,
        "ended_at": None if outcome == RETRY else clock.now(),
    }
    _insist(lambda: rows.update(**became), until)
    with suppress(Delivery.DoesNotExist):
        # Its channel may have been deleted during the call.
        delivery.refresh_from_db(fields=["state", "code", "answer"])
    return Verdict(outcome, text, wait)


def _insist(write: Callable[[], object], until: datetime) -> None:
    """Write what a server has said. A database that is away is waited for as long as nobody else
    sends the message: it would be sent again."""
    while True:
        try:
            write()
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or clock.now() >= until:
                raise
            logger.warning("the answer to a message is not stored yet: %s", line_of_error(error))
            connection.close()
            time.sleep(_AWAY_SECONDS)
        else:
            return


def _put_off(delivery: Delivery, until: datetime) -> Verdict:
    """Have the delivery wait for the server of its channel, but not for longer than a day."""
    waiting = Delivery.objects.filter(
        pk=delivery.pk, tries=delivery.tries, state=Delivery.State.WAITING
    )
    now = clock.now()
    if delivery.created_at < now - LONGEST:
        failed = {"state": Delivery.State.FAILED, "answer": str(TOO_LATE), "ended_at": now}
        waiting.update(**failed, next_at=None)
        return Verdict(FAIL, TOO_LATE)
    waiting.update(next_at=until)
    # The sweep asks first.
    return Verdict(WAIT, wait=(max(until, now) + silence.A_ROUND - now).total_seconds())


def _in(seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


@repeatable
def _take(delivery: Delivery) -> datetime | None:
    """Take the delivery; returns until when nobody else sends it, None when it has changed since it
    was read."""
    now = clock.now()
    until = now + AT_MOST
    free = Q(taken_until=None) | Q(taken_until__lte=now)
    same = Delivery.objects.filter(free, pk=delivery.pk, tries=delivery.tries, state=delivery.state)
    taken = same.exclude(state=Delivery.State.SENT)
    return until if taken.update(taken_until=until, tries=F("tries") + 1) else None


def _message_of(delivery: Delivery) -> Message | Verdict:
    """The message as it is sent now; the verdict if there is none."""
    if isinstance(delivery.message, Misshapen):
        return Verdict(FAIL, delivery.message.why)
    if "plan" not in delivery.message:
        return message_in(delivery)
    try:
        message = report_message.message_of(delivery)
    except PlatformError as error:
        return Verdict(FAIL, error.detail)
    _keep(delivery, message)
    return message


def _readable(message: Message) -> Message:
    """The message with what would turn or hide its letters escaped: names may have any sign."""
    lines = [shown_text(line) for line in message.text.split("\n")]
    title = shown_text(" ".join(message.title.split()))
    return replace(message, title=title, text="\n".join(lines))


def _keep(delivery: Delivery, message: Message) -> None:
    """Store the message that is sent, but for the file of a mail."""
    kept = {name: getattr(message, name) for name in ("title", "text", "url", "open", "is_report")}
    delivery.message |= {**kept, "wire": message.wire}
    delivery.save(update_fields=["message"])


def _without_secrets(channel: Channel, text: str) -> str:
    """The answer without the secrets of the channel: it may repeat what was sent."""
    parts = urlsplit(channel.url)
    whole = (channel.url, parts.query, parts.path, channel.secret)
    secrets = {each for each in whole if len(each) > 1}
    # The key of a bot is one part of its address, and an answer may name it alone.
    for part in re.split("[/&=]", f"{parts.path}&{parts.query}"):
        secrets |= {each for each in (part, unquote(part)) if len(each) >= _MIN_KEY}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text.replace("\x00", "\ufffd")
