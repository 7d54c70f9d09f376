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

# A section takes so many characters, and a longer one is refused.
MAX_CHARACTERS = 3_000
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def request(target: Target, message: Message, now: datetime) -> Request:
    title = message.title.translate(_ESCAPES).replace("\n", " ")
    text = message.text.translate(_ESCAPES)
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": message.open},
        "url": message.url,
    }
    head = f"*{title}*\n"
    section = f"{head}{_cut(text, MAX_CHARACTERS - len(head))}"
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": section}},
        {"type": "actions", "elements": [button]},
    ]
    return json_request(target.url, {"text": title, "blocks": blocks})


def _cut(text: str, size: int) -> str:
    """Cut the text to so many characters, without half of an escape."""
    if len(text) <= size:
        return text
    before, sign, escape = text[:size].rpartition("&")
    return text[:size] if not sign or ";" in escape else before


def verdict(status: int, body: bytes) -> Verdict:
    found = by_status(status, body)
    if found.outcome == OK and body.strip() != b"ok":
        return Verdict(UNSURE, body.decode("utf-8", "replace"))
    return found
