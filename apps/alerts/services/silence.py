"""Channels whose servers take a connection and do not answer: each call costs a worker ten seconds.

One message at a time asks such a server again, after waits that grow; the others wait for that. The
sweep asks, which calls many servers side by side, so that messages to other channels have the
workers.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.alerts.channels.contract import OK, Verdict
from apps.alerts.models import Channel
from apps.common import clock
from apps.common.db import repeatable
from apps.common.messages import Message
from apps.common.messages import Message as _

# A call without success that took no longer kept nobody waiting.
LONG = timedelta(seconds=3)
SHORTEST, LONGEST = timedelta(seconds=10), timedelta(minutes=2)
# Whoever asks the server again has an answer, or none, by then.
_ONE_CALL = timedelta(seconds=40)
# Workers ask themselves what no sweep has asked for so long after its time: there may be no beat.
_NO_SWEEP = timedelta(minutes=1)
# Then they look again: the sweep comes as often.
A_ROUND = timedelta(seconds=15)
SILENT = _(
    "Its server has not answered since {at}. One message at a time asks it again, after waits "
    "that grow to two minutes; the others wait for that."
)


def said_of(channel: Channel) -> str:
    """What its page says of a server that does not answer, or ""."""
    since = channel.silent_since
    return "" if since is None else Message(SILENT, at=since)


@repeatable
def waits_until(channel: int, *, asks: bool) -> datetime | None:
    """Until when a message to the channel waits; None if it is sent now. `asks`: by the sweep."""
    now = clock.now()
    rows = Channel.objects.filter(pk=channel)
    until = rows.values_list("silent_until", flat=True).first()
    if until is None or until > now:
        return until
    if not asks and now < until + _NO_SWEEP:
        return now
    # The first of those that have waited for it asks it again.
    soon = now + _ONE_CALL
    return None if rows.filter(silent_until=until).update(silent_until=soon) else soon


@repeatable
def note(channel: int, verdict: Verdict, took: timedelta) -> None:
    """Note that the server has answered the call, or that it has not for so long."""
    rows = Channel.objects.filter(pk=channel)
    if verdict.outcome == OK or took < LONG:
        rows.filter(silent_since__isnull=False).update(silent_since=None, silent_until=None)
        return
    now = clock.now()
    since = rows.values_list("silent_since", flat=True).first() or now - took
    wait = min(max((now - since) / 2, SHORTEST), LONGEST)
    rows.update(silent_since=since, silent_until=now + wait)
