"""A bot of WeCom; its address holds its key."""

from __future__ import annotations

from datetime import datetime

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

MAX_BYTES = 4096
# Busy, and too many messages a minute.
_BUSY = (-1, 45009)


def request(target: Target, message: Message, now: datetime) -> Request:
    colour = "info" if message.is_resolved or message.is_report else "warning"
    head = f'<font color="{colour}">{plain(message.title)}</font>\n'
    tail = f"\n[{plain(message.open)}]({message.url})"
    room = MAX_BYTES - len(head.encode()) - len(tail.encode())
    text = "\n".join(plain_lines(message.text))
    content = f"{head}{_cut(text, room)}{tail}"
    return json_request(target.url, {"msgtype": "markdown", "markdown": {"content": content}})


def _cut(text: str, size: int) -> str:
    """Cut the text to so many bytes, between two characters."""
    return text.encode()[:size].decode(errors="ignore")


def verdict(status: int, body: bytes) -> Verdict:
    return by_code(status, body, code="errcode", message="errmsg", busy=_BUSY)
