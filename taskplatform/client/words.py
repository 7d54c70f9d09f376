"""Reads what was typed at the command line: words, options, and values as JSON.

Python 3.9 or later, standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from .sdk import Client

# Options that every command has, and those that take no value.
OF_ALL = frozenset({"url", "api-key", "api-key-file", "json"})
FLAGS = frozenset({"json", "help", "follow", "all"})
_SHORT = {"-f": "--follow", "-h": "--help"}
# Much more than the largest body of a call has.
_MOST = 2**24
_EXAMPLE = """'{"to": "ann@example.com"}'"""


class Misused(Exception):
    """The words that were typed mean nothing; says what to type."""


class Words(NamedTuple):
    """The typed words: options by their names, all others in their order."""

    command: str
    others: list[str]
    options: dict[str, list[str]]

    def one(self, name: str) -> str:
        """The last value of the option, "" without."""
        return self.options.get(name, [""])[-1]

    def only(self, *names: str) -> None:
        """Misused when there is another option."""
        known = {*OF_ALL, *names}
        for name in self.options:
            if name not in known:
                some = ", ".join(f"--{each}" for each in names)
                raise Misused(f"{self.command} has no option --{name}; it has: {some or 'none'}")

    def take(self, *names: str, optional: int = 0) -> list[str]:
        """The words, with "" for optional ones that are missing."""
        least = len(names) - optional
        if not least <= len(self.others) <= len(names):
            raise Misused(f"Type: taskplatform {self.command} {' '.join(names)}")
        return [*self.others, *[""] * (len(names) - len(self.others))]


def read_words(typed: Sequence[str], flags: frozenset[str]) -> Words:
    """A dash alone is a word, and so is all after `--`. At the end a value may be missing."""
    others: list[str] = []
    options: dict[str, list[str]] = {}
    for word in typed:
        if any("\ud800" <= sign <= "\udfff" for sign in word):
            raise Misused(f"{word!r} is not text in UTF-8")
    rest = deque(typed)
    while rest:
        word = rest.popleft()
        word = _SHORT.get(word, word)
        if word == "--":
            others += rest
            break
        if not word.startswith("--"):
            others.append(word)
            continue
        name, is_joined, value = word[2:].partition("=")
        name = name.replace("_", "-")
        # Flags of the server are read without it at first: what all commands have is no value.
        if not is_joined and name not in flags and rest and not _is_of_all(rest[0]):
            value = rest.popleft()
        options.setdefault(name, []).append(value)
    return Words(others[0] if others else "", others[1:], options)


def _is_of_all(word: str) -> bool:
    """Whether it is an option that every command has."""
    return word.startswith("--") and word[2:].partition("=")[0].replace("_", "-") in OF_ALL


def client_of(words: Words) -> Client:
    """Misused, never with the key, when address or key is missing or malformed."""
    url = words.one("url") or os.environ.get("TASKPLATFORM_URL", "")
    key = words.one("api-key")
    file = words.one("api-key-file") or os.environ.get("TASKPLATFORM_KEY_FILE", "")
    if not key and file and (words.one("api-key-file") or "TASKPLATFORM_KEY" not in os.environ):
        key = text_of(file)
    key = key or os.environ.get("TASKPLATFORM_KEY", "")
    if not url:
        raise Misused("Which server? Set TASKPLATFORM_URL, or give --url https://tasks.example.com")
    if not key:
        raise Misused("Which key? Set TASKPLATFORM_KEY, or give --api-key-file FILE")
    try:
        return Client(url, key, give_up_after=5)
    except ValueError as error:
        raise Misused(str(error)) from error


def is_flag(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "boolean"


def meaning(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    return str(schema.get("description") or schema.get("format") or schema.get("type", ""))


def value_of(option: str, text: str, schema: Mapping[str, Any]) -> Any:
    """The text as JSON of the kind that the field has; the server judges the rest."""
    kind = schema.get("type")
    if kind == "boolean":
        is_true = text.lower() in ("", "true", "yes", "1")
        return str(is_true).lower() if "in" in schema else is_true
    if kind in ("integer", "number") and "in" not in schema:
        try:
            return _read(text)
        except ValueError as error:
            raise Misused(f"--{option} is a number, not {text!r}") from error
    if kind is None and "enum" not in schema and "$ref" not in schema and "allOf" not in schema:
        return json_or_text(text)
    return json_of(text) if kind == "object" else text


def json_or_text(text: str) -> Any:
    """The JSON that the text is, else the text."""
    try:
        return _read(text)
    except ValueError:
        return text


def _read(text: str) -> Any:
    """The JSON; ValueError also for what Python takes and JSON has not, such as NaN and 1e999."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def json_of(text: str) -> dict[str, Any]:
    """The JSON object in the text, in @FILE, or in standard input for a dash."""
    source = "standard input" if text == "-" else text[1:] if text.startswith("@") else "it"
    try:
        read = text_of(text[1:]) if text.startswith("@") else text
        said = _all_of(sys.stdin, source) if text == "-" else read
        value = _read(said)
    except ValueError as error:
        raise Misused(f"No JSON in {source}: {error}. Type it as {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise Misused(f"The JSON is no object. Type it as {_EXAMPLE}, not {said[:40]!r}")
    return value


def text_of(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8") as opened:
            return _all_of(opened, file)
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"{file} cannot be read: {error}") from error


def _all_of(opened: TextIO, name: str) -> str:
    text = opened.read(_MOST + 1)
    if len(text) > _MOST:
        raise Misused(f"{name} has more than {_MOST} characters, and no call takes as many")
    # Some editors and shells put a byte order mark first.
    return text.removeprefix("\ufeff")
