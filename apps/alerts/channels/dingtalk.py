"""A bot of DingTalk; the secret is that of its signature check."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from urllib.parse import quote_plus

from apps.alerts.channels.contract import (
    Message,
    Request,
    Target,
    Verdict,
    by_code,
    json_request,
    plain,
    plain_lines,
)

# Too many messages a minute.
_BUSY = (-1, 130101, 660026)


def request(target: Target, message: Message, now: datetime) -> Request:
    url = target.url
    if target.secret:
        ms = str(int(now.timestamp() * 1000))
        url += f"&timestamp={ms}&sign={signature(ms, target.secret)}"
    title = plain(message.title)
    lines = "\n\n".join(plain_lines(message.text))
    text = f"### {title}\n\n{lines}\n\n[{plain(message.open)}]({message.url})"
    body = {
        "msgtype": "markdown",
        "markdown": {"title": title, "text": text},
        "at": {"isAtAll": False},
    }
    return json_request(url, body)


def signature(ms: str, secret: str) -> str:
    """The signature as it stands in the address."""
    digest = hmac.new(secret.encode(), f"{ms}\n{secret}".encode(), hashlib.sha256).digest()
    return quote_plus(base64.b64encode(digest))


def verdict(status: int, body: bytes) -> Verdict:
    return by_code(status, body, code="errcode", message="errmsg", busy=_BUSY)
