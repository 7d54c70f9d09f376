"""A service of one's own: JSON, signed with the secret.

The signature is the HMAC-SHA256 of `<timestamp>.<body>`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from datetime import datetime

from apps.alerts.channels.contract import Message, Request, Target, json_request
from apps.alerts.channels.contract import by_status as verdict

__all__ = ["request", "verdict"]

TIMESTAMP, SIGNATURE = "X-Taskplatform-Timestamp", "X-Taskplatform-Signature"


def request(target: Target, message: Message, now: datetime) -> Request:
    unsigned = json_request(target.url, message.wire)
    second = str(int(now.timestamp()))
    headers = {**unsigned.headers, "Idempotency-Key": message.id, TIMESTAMP: second}
    if target.secret:
        signed = hmac.new(
            target.secret.encode(), second.encode() + b"." + unsigned.body, hashlib.sha256
        )
        headers[SIGNATURE] = f"v1={signed.hexdigest()}"
    return replace(unsigned, headers=headers)
