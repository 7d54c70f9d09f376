"""The channels over HTTP by kind; mail goes by SMTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from apps.alerts.channels import dingtalk, feishu, slack, webhook, wecom
from apps.alerts.channels.contract import Message, Request, Target, Verdict

MAIL = "mail"


class HttpChannel(NamedTuple):
    """The functions of a kind of channel, and whether it signs with a secret."""

    request: Callable[[Target, Message, datetime], Request]
    verdict: Callable[[int, bytes], Verdict]
    signs: bool = False


HTTP: Mapping[str, HttpChannel] = {
    "webhook": HttpChannel(webhook.request, webhook.verdict, signs=True),
    "dingtalk": HttpChannel(dingtalk.request, dingtalk.verdict, signs=True),
    "wecom": HttpChannel(wecom.request, wecom.verdict),
    "feishu": HttpChannel(feishu.request, feishu.verdict, signs=True),
    "slack": HttpChannel(slack.request, slack.verdict),
}
