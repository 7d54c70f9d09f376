"""Secrets in JSON and in texts, masked for those who may not see them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from apps.common.conf import conf

MASK = "••••••"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
# What may hold a secret in a text: a password before the host of an address, `name=value` as in
# the query of an address, and what follows the name of a way to sign in.
_IN_TEXT = re.compile(
    r"(?P<user>(?<=://)[^\s/?#@\"'<>]+(?=@))"
    r"|(?P<mark>[?&;#]?)(?P<name>(?<![\w.%\[\]-])[\w.%\[\]-]{1,80})=(?P<value>[^\s&;#\"'<>]+)"
    r"|(?P<way>\b(?:Bearer|Basic)\s+)(?P<given>[\w.~+/=-]{8,})",
    re.IGNORECASE,
)
# Too common elsewhere, but in the query of an address they name what opens it.
_IN_QUERY = {"key", "sig", "sign", "signature"}


@functools.lru_cache(maxsize=4096)
def _words(key: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORD.findall(key))


@functools.lru_cache(maxsize=4096)
def _is_named(key: str, names: tuple[str, ...]) -> bool:
    words = _words(key)
    runs = {
        "".join(words[first:last])
        for first in range(len(words))
        for last in range(first + 1, len(words) + 1)
    }
    return not runs.isdisjoint("".join(_words(name)) for name in names)


def is_secret(key: str) -> bool:
    """Whether values under this key are secrets: one of MASKED_KEYS is among its words.

    `api_key`, `API-Key`, `apiKey` and `x-api-key` are alike; `tokens` and `secretary` are no
    secrets. Of a very long key the end counts.
    """
    return _is_named(key[-80:], tuple(conf.MASKED_KEYS))


def redacted(value: Any) -> Any:
    """The JSON value or text with MASK instead of its secrets: every value under one of
    MASKED_KEYS, and in texts passwords and tokens of addresses."""
    if isinstance(value, dict):
        return {key: MASK if is_secret(key) else redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, str):
        return _replaced(value, lambda secret: MASK)
    return value


def unredacted(edited: Any, stored: Any) -> Any:
    """The edited JSON value with the stored secrets wherever MASK was left."""
    if isinstance(edited, dict) and isinstance(stored, dict):
        return {
            key: stored[key]
            if item == MASK and is_secret(key) and key in stored
            else unredacted(item, stored.get(key))
            for key, item in edited.items()
        }
    if isinstance(edited, list) and isinstance(stored, list):
        return [
            unredacted(item, stored[position] if position < len(stored) else None)
            for position, item in enumerate(edited)
        ]
    if isinstance(edited, str) and isinstance(stored, str) and MASK in edited:
        return _refilled(edited, stored)
    return edited


def _refilled(edited: str, stored: str) -> str:
    """The edited text with the secrets of the stored one, if it has a mask for each of them."""
    secrets: list[str] = []

    def keep(secret: str) -> str:
        secrets.append(secret)
        return MASK

    _replaced(stored, keep)
    parts = edited.split(MASK)
    if len(parts) != len(secrets) + 1:
        return edited
    return "".join(part + secret for part, secret in zip(parts, [*secrets, ""], strict=True))


def _replaced(text: str, instead: Callable[[str], str]) -> str:
    if "=" not in text and "@" not in text and " " not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match["user"]:
            return instead(match["user"])
        if match["given"]:
            return match["way"] + instead(match["given"])
        is_hidden = is_secret(match["name"]) or (
            match["mark"] and match["name"].casefold() in _IN_QUERY
        )
        if not is_hidden:
            return match[0]
        return f"{match['mark']}{match['name']}={instead(match['value'])}"

    return _IN_TEXT.sub(replace, text)
