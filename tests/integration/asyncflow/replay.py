"""Requests of workers as they were recorded, replayed; their answers are compared byte by byte.

A file of `recorded/` is a list of exchanges in order: `send` is the method, the address below that
of the dialect and the body as text, `type` its media type ("" for none), `answer` the status and
the body. `<<a>>` in an answer stands for the digits of a job that are not known before, and in
later requests for the same digits; `<<x*8193>>` is a text of so many x. `without_key` leaves out
the key, `after` lets so many seconds pass before.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from django.test import Client

RECORDED = Path(__file__).parent / "recorded"
_NAME = re.compile(r"<<([a-z]+)>>")
_REPEATED = re.compile(r"<<(.)\*([0-9]+)>>")


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((RECORDED / f"{name}.json").read_text())


def basic(key: str) -> str:
    """The header that HTTP clients make of a key in their address."""
    name, _, secret = key.partition(".")
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


class Replay:
    """Sends exchanges and remembers the numbers of jobs."""

    def __init__(self, address: str, key: str) -> None:
        self._address = address
        self._key = key
        self._client = Client()
        self.known: dict[str, str] = {}

    def send(self, exchange: dict[str, Any]) -> tuple[int, str]:
        method, path, body = map(self._filled, exchange["send"])
        headers = {} if exchange.get("without_key") else {"Authorization": basic(self._key)}
        answer = self._client.generic(
            method,
            self._address + path,
            body.encode(),
            exchange.get("type", "application/json;charset=utf-8"),
            headers=headers,
        )
        assert answer.headers["Content-Type"] == "application/json"
        return answer.status_code, answer.content.decode()

    def matches(self, expected: str, given: str) -> bool:
        """Whether the answer is as recorded, but for numbers of jobs that are new."""
        pattern, seen = "", set[str]()
        for position, part in enumerate(_NAME.split(self._filled(expected))):
            if position % 2 == 0:
                pattern += re.escape(part)
            elif part in seen:
                pattern += f"(?P={part})"
            else:
                pattern += f"(?P<{part}>[0-9]+)"
                seen.add(part)
        found = re.fullmatch(pattern, given)
        self.known |= found.groupdict() if found else {}
        return found is not None

    def _filled(self, text: str) -> str:
        text = _REPEATED.sub(lambda found: found[1] * int(found[2]), text)
        return _NAME.sub(lambda found: self.known.get(found[1], found[0]), text)
