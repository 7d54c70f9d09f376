"""Messages of rules and services: English for programs, translated where a page shows them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, TypeAlias

Param: TypeAlias = str | int | float | datetime


def wire_time(at: datetime) -> str:
    """`2026-11-20T09:30:00Z`, with six decimals where the instant has microseconds."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def wire_text(text: str) -> str:
    """`wire_time` of a time that was read as text, see `db.time_text`."""
    return f"{text[:10]}T{text[11:].removesuffix('.000000')}Z"


class Message(str):
    """English text that keeps its template and params, so that it can be translated later.

    `Message("{count} jobs of {type}", count=3, type="mail")`. Import it as `_`, so that gettext's
    tools find the template. A param may be a message itself. Without params the template is the
    text, braces and all.
    """

    template: str
    params: Mapping[str, Param]

    def __new__(cls, template: str, /, **params: Param) -> Message:
        made = super().__new__(cls, _formatted(template, params, str, wire_time))
        made.template, made.params = template, params
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, Param]]:
        return (self.template,), self.params

    def translated(
        self,
        translate: Callable[[str], str] = str,
        format_time: Callable[[datetime], str] = wire_time,
    ) -> str:
        """The text as `translate` (gettext) has it, its instants as `format_time` writes them."""
        return _formatted(translate(self.template), self.params, translate, format_time)


class _Part(Message):
    """A message without the full stop at its end, because another one follows."""

    def __new__(cls, template: str, /, **params: Param) -> _Part:
        text = _formatted(template, params, str, wire_time).rstrip(".")
        made = str.__new__(cls, text)
        made.template, made.params = template, params
        return made

    def translated(
        self,
        translate: Callable[[str], str] = str,
        format_time: Callable[[datetime], str] = wire_time,
    ) -> str:
        return super().translated(translate, format_time).rstrip(".。")


_ = Message


def packed(text: str) -> Any:
    """The message as JSON, so that it can be translated when it is read again; other text as it
    is."""
    if not isinstance(text, Message):
        return text
    return {"template": text.template, "params": {k: _packed(v) for k, v in text.params.items()}}


def _packed(param: Param) -> Any:
    if isinstance(param, datetime):
        return {"at": wire_time(param)}
    return packed(param) if isinstance(param, str) else param


def unpacked(stored: Any) -> Any:
    """The message, text or other param that was packed."""
    if not isinstance(stored, dict):
        return stored
    if "at" in stored:
        return datetime.fromisoformat(stored["at"])
    params = {name: unpacked(each) for name, each in stored["params"].items()}
    return Message(stored["template"], **params)


@dataclass(frozen=True)
class Reason:
    """Why something does not happen now, and the instant at which that could change, if any."""

    code: str
    detail: Message
    until: datetime | None = None


def recognised(text: str, template: str) -> Message | None:
    """The message whose text was stored, if the template makes such texts."""
    found = pattern_of(template).fullmatch(text)
    return Message(template, **found.groupdict()) if found else None


@functools.cache
def pattern_of(template: str) -> re.Pattern[str]:
    """The pattern of the texts that the template makes; its params are the groups."""
    parts = re.split(r"\{(\w+)\}", template)
    texts, names = map(re.escape, parts[::2]), (f"(?P<{name}>.*?)" for name in parts[1::2])
    return re.compile("".join(map("".join, zip_longest(texts, names, fillvalue=""))), re.DOTALL)


def joined(messages: Iterable[str]) -> str:
    """The messages, at least one, as one text: semicolons between several."""
    *parts, last = messages
    if parts and not isinstance(last, Message) and last[-1:] not in (".", "?"):
        last = f"{last}."
    text = last
    for part in map(_part, reversed(parts)):
        text = _("{first}; {rest}", first=part, rest=text)
    return text


def _part(message: str) -> str:
    if isinstance(message, Message):
        return _Part(message.template, **message.params)
    return message.rstrip(".")


def _formatted(
    template: str,
    params: Mapping[str, Param],
    translate: Callable[[str], str],
    format_time: Callable[[datetime], str],
) -> str:
    if not params:
        return template
    shown: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Message):
            shown[name] = value.translated(translate, format_time)
        else:
            shown[name] = format_time(value) if isinstance(value, datetime) else value
    return template.format(**shown)
