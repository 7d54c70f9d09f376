"""Calling the server of a channel: a request or a mail, and the meaning of the answer. It needs no
database, so it can be done in a thread of its own."""

from __future__ import annotations

from datetime import datetime

from apps.alerts.channels.contract import FAIL, RETRY, Answer, Message, Target, Verdict
from apps.alerts.channels.kinds import HTTP, MAIL
from apps.alerts.conf import conf
from apps.alerts.models import Channel
from apps.alerts.services.mailing import mailed
from apps.common.messages import Message as _
from apps.jobs.handlers import http
from apps.jobs.handlers.contract import Fail, Retry
from apps.jobs.rules.addresses import is_address

SECONDS = 10.0
UNREADABLE = _(
    "SECRET_KEY was changed, so the address and secret of the channel cannot be read. Add the old "
    "key to SECRET_KEY_FALLBACKS and start anew, or type both again."
)


def why_not_called(channel: Channel) -> str:
    """Why no message can be sent to the host of the channel, or ""."""
    if not channel.is_readable:
        return UNREADABLE
    try:
        if channel.kind != MAIL:
            target = http.target_of(channel.url, conf.ALERT_HOSTS, setting="ALERT_HOSTS")
            if is_address(target.host):
                http.resolved(target)
    except Fail as error:
        reason: str = error.args[0]
        return reason
    return ""


def called(channel: Channel, message: Message, now: datetime) -> Answer:
    """Send the message by the address of the channel."""
    if not channel.is_readable:
        return None, Verdict(RETRY, UNREADABLE)
    if channel.kind == MAIL:
        return mailed(channel.recipients, message)
    kind = HTTP[channel.kind]
    request = kind.request(Target(url=channel.url, secret=channel.secret), message, now)
    try:
        target = http.target_of(request.url, conf.ALERT_HOSTS, setting="ALERT_HOSTS")
        headers = {"User-Agent": "taskplatform", **request.headers}
        status, answered, body = http.send(
            http.resolved(target), "POST", headers, request.body, SECONDS
        )
    except Retry as error:
        return None, Verdict(RETRY, str(error))
    except Fail as error:
        return None, Verdict(FAIL, str(error))
    return status, kind.verdict(status, body)._replace(wait=http.wait_of(answered))
