"""A bot of Feishu or Lark; the secret is that of its signature check."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Any

from apps.alerts.channels.contract import (
    Message,
    Request,
    Target,
    Verdict,
    by_code,
    json_request,
    plain_lines,
)

# Too many messages.
_BUSY = (9499, 11232)


def request(target: Target, message: Message, now: datetime) -> Request:
    colour = "green" if message.is_resolved else "red" if message.is_critical else "orange"
    if message.is_report:
        colour = "blue"
    button = {
        "tag": "button",
        "text": {"tag": "plain_text", "content": message.open},
        "url": message.url,
    }
    text = "\n".join(plain_lines(message.text))
    card = {
        "header": {
            "template": colour,
            "title": {"tag": "plain_text", "content": message.title},
        },
        "elements": [
            {"tag": "div", "text": {"tag": "lark_md", "content": text}},
            {"tag": "action", "actions": [button]},
        ],
    }
    body: dict[str, Any] = {"msg_type": "interactive", "card": card}
    if target.secret:
        second = str(int(now.timestamp()))
        body = {"timestamp": second, "sign": signature(second, target.secret), **body}
    return json_request(target.url, body)


def signature(second: str, secret: str) -> str:
    """The HMAC of an empty text, keyed by time and secret, as the vendor requires."""
    digest = hmac.new(f"{second}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def verdict(status: int, body: bytes) -> Verdict:
    return by_code(status, body, code="code", message="msg", busy=_BUSY)
