"""Secrets in JSON and in texts, masked for those who may not see them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from apps.common.conf import conf

MASK = "••••••"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
# What may begin a secret in a text: the password before the host of an address, `name=value` as in
# the query of an address, `"name": "value"` as in JSON, and what follows the name of a way to sign
# in.
_NAME = r"[\w.%\[\]-]{1,80}"
_BEFORE_SECRET = re.compile(
    r"(?P<address>://)(?=[^\s/?#\"'<>]+@)"
    rf"|(?P<mark>[?&;#]?)(?P<name>(?<![\w.%\[\]-]){_NAME})=(?=[^\s&;#\"'<>])"
    r"|\b(?P<way>Bearer|Basic)\s+(?=[\w.~+/=-]{8})"
    rf"|(?P<quote>[\"'])(?P<key>{_NAME})(?P=quote)\s*:\s*(?P<opening>[\"'])",
    re.IGNORECASE,
)
# Up to the last @: many a password has one.
_IN_ADDRESS = re.compile(r"[^\s/?#\"'<>]+(?=@)")
_VALUE = re.compile(r"(?:(?:Bearer|Basic)\s+)?[^\s&;#\"'<>]+", re.IGNORECASE)
_SIGNED_WITH = re.compile(r"[\w.~+/=-]+")
_QUOTED = {quote: re.compile(rf"(?:\\.|[^\\{quote}])+", re.DOTALL) for quote in ("'", '"')}
# No secret begins in a text without any of these.
_SIGN_OF_SECRET = re.compile(r"[=@\s\"']")
# Too common elsewhere, but in the query of an address they name what opens it.
IN_QUERY = {"key", "sig", "sign", "signature"}


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
    return not runs.isdisjoint(map(letters_of, names))


def letters_of(name: str) -> str:
    """What is compared of a name: `apikey` of `API-Key`."""
    return "".join(_words(name))


def is_secret(key: str) -> bool:
    """Whether values under this key are secrets: one of MASKED_KEYS is among its words.

    `api_key`, `API-Key`, `apiKey` and `x-api-key` are alike; `tokens` and `secretary` are no
    secrets. Of a very long key the end counts.
    """
    return _is_named(key[-80:], tuple(conf.MASKED_KEYS))


def redacted(value: Any) -> Any:
    """The JSON value or text with MASK instead of its secrets: every value under one of
    MASKED_KEYS, and in texts passwords of addresses, `name=value`, `"name": "value"` and tokens of
    a sign-in."""
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
    if not _SIGN_OF_SECRET.search(text):
        return text
    parts: list[str] = []
    done = at = 0
    while before := _BEFORE_SECRET.search(text, at):
        at = before.end()
        secret = _secret_after(before)
        if secret is not None and (found := secret.match(text, at)):
            parts += (text[done:at], instead(found[0]))
            done = at = found.end()
    return "".join((*parts, text[done:])) if parts else text


def _secret_after(before: re.Match[str]) -> re.Pattern[str] | None:
    """What the secret looks like, if that is the beginning of one."""
    if before["address"]:
        return _IN_ADDRESS
    if before["way"]:
        return _SIGNED_WITH
    if before["opening"]:
        return _QUOTED[before["opening"]] if is_secret(before["key"]) else None
    in_query = before["mark"] and before["name"].casefold() in IN_QUERY
    return _VALUE if in_query or is_secret(before["name"]) else None
