"""The common parts of all channels over HTTP: pure functions from a message to a request, and from
an answer to a verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

# Statuses after which the same request may succeed.
PASSING = (408, 425, 429)

OK = "ok"
RETRY = "retry"  # as often as the policy of the job says
UNSURE = "unsure"  # an answer that its documentation leaves open: some tries
FAIL = "fail"
WAIT = "wait"  # nothing was tried; it does not count

# Signs that would begin markup, a link or a mention in the texts of bots, and what looks like them.
_LOOKALIKES = str.maketrans(
    {"<": "＜", ">": "＞", "[": "［", "]": "］", "*": "＊", "`": "ˋ", "#": "＃", "\n": " "}
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The address and the secret of a channel."""

    url: str
    secret: str = ""


@dataclass(frozen=True, kw_only=True)
class Mail:
    """The longer text that a mail has in place of that of the message, the same as HTML, and a
    file."""

    text: str
    html: str
    file_name: str
    file: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message to people. `url` leads to a page of the platform, `open` is the word for it;
    `wire` is the message for programs. Lines of the text are divided by line breaks."""

    id: str
    title: str
    text: str
    url: str
    open: str
    is_resolved: bool = False
    is_critical: bool = False
    is_report: bool = False
    wire: Mapping[str, Any] = field(default_factory=dict)
    mail: Mail | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A POST; the address may hold the key of a bot."""

    url: str
    body: bytes
    headers: Mapping[str, str]


class Verdict(NamedTuple):
    """The meaning of an answer, with the text of the other side, and the seconds after which it
    wants to be asked again, None if it says nothing of that."""

    outcome: str
    text: str = ""
    wait: float | None = None


# The status of an answer, if there was one, and the verdict on it.
Answer: TypeAlias = tuple[int | None, Verdict]


def json_request(url: str, body: Mapping[str, Any], **headers: str) -> Request:
    """The request with the body as JSON in UTF-8."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    own = {"Content-Type": "application/json; charset=utf-8", **headers}
    return Request(url=url, body=text.encode(), headers=own)


def plain(text: str) -> str:
    """Text that means nothing to the markup of a bot."""
    return text.translate(_LOOKALIKES)


def plain_lines(text: str) -> Sequence[str]:
    """Each line as `plain` returns it."""
    return [plain(line) for line in text.split("\n")]


def by_status(status: int, body: bytes) -> Verdict:
    """The verdict by the status: any 2xx is success."""
    if 200 <= status < 300:
        return Verdict(OK)
    text = body.decode("utf-8", "replace")
    return Verdict(RETRY if status >= 500 or status in PASSING else FAIL, text)


def by_code(status: int, body: bytes, *, code: str, message: str, busy: tuple[int, ...]) -> Verdict:
    """The verdict on a bot, which answers 200 with a code in the body; 0 is success, `busy` codes
    are worth another try."""
    if not 200 <= status < 300:
        return by_status(status, body)
    try:
        answer = json.loads(body)
        number = int(answer[code])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Verdict(UNSURE, body.decode("utf-8", "replace"))
    if number == 0:
        return Verdict(OK)
    text = f"{number}: {answer.get(message, '')}"
    return Verdict(RETRY if number in busy else UNSURE, text)
