"""An incoming webhook of Slack; its address holds its key."""

from __future__ import annotations

from datetime import datetime

from apps.alerts.channels.contract import (
    OK,
    UNSURE,
    Message,
    Request,
    Target,
    Verdict,
    by_status,
    json_request,
)

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def request(target: Target, message: Message, now: datetime) -> Request:
    title = message.title.translate(_ESCAPES).replace("\n", " ")
    text = message.text.translate(_ESCAPES)
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": message.open},
        "url": message.url,
    }
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*\n{text}"}},
        {"type": "actions", "elements": [button]},
    ]
    return json_request(target.url, {"text": title, "blocks": blocks})


def verdict(status: int, body: bytes) -> Verdict:
    found = by_status(status, body)
    if found.outcome == OK and body.strip() != b"ok":
        return Verdict(UNSURE, body.decode("utf-8", "replace"))
    return found
