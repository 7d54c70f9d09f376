"""JSON values and texts as they are shown to those who may not see their secrets."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

from apps.common.masking import names
from apps.common.masking.key_lines import KeyLines
from apps.common.masking.patterns import MASK, OPTION_VALUE, Patterns
from apps.common.texts import begin_of


def redact(value: Any) -> Any:
    """The JSON value or text with MASK instead of its secrets: every value under the name of one,
    and in texts what stands behind such a name, the sign-in of an address and of a header; of a
    private key whose lines are texts of their own each line."""
    return _redacted(value, names.patterns(), KeyLines())


def redact_some(
    value: Mapping[str, Any], wanted: Sequence[str], *, most: int
) -> list[tuple[str, Any]]:
    """What `redact` shows of these values of the object and of their names, of texts only the first
    words, `most` characters at most: masking all of a large value takes a second."""
    patterns, lines = names.patterns(), KeyLines()
    # Keys that have begun before are hidden, whether they are wanted or not.
    hidden = {key: (lines.hide_name(key), _redacted(value[key], _NONE, lines)) for key in value}
    shown = []
    for key in wanted:
        name, below = (
            begin_of(part, most) if isinstance(part, str) else part for part in hidden[key]
        )
        masked = MASK if patterns.is_name(key) else _redacted(below, patterns, KeyLines())
        shown.append((patterns.hide(name), masked))
    return shown


def quote(value: Any) -> str:
    """The value as JSON, masked and cut to 60 characters."""
    text = json.dumps(redact(value), default=str, ensure_ascii=False)
    # Invisible characters and lone surrogates are escaped.
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= 60 else text[:57] + "..."


def redact_line(value: Any) -> Any:
    """`redact` for log lines: without asking the database, whose errors are logged, too."""
    return _redacted(value, names.known_patterns(), KeyLines())


def _redacted(value: Any, patterns: Patterns | _Nothing, lines: KeyLines) -> Any:
    if isinstance(value, str):
        return patterns.hide(lines.hide(value))
    if isinstance(value, dict):
        shown: dict[Any, Any] = {}
        for key, below in value.items():
            name = _shown_key(key, patterns, lines, shown)
            is_secret = isinstance(key, str) and patterns.is_name(key)
            # Of a secret, too: a key that begins or ends in it begins or ends for what follows.
            masked = _redacted(below, patterns, lines)
            shown[name] = MASK if is_secret else masked
        return shown
    if isinstance(value, list):
        return [
            MASK if is_value_of(before, item, patterns) else _redacted(item, patterns, lines)
            for before, item in zip([None, *value], value, strict=False)
        ]
    return value


class _Nothing:
    """In place of the patterns: of what is not shown only private keys are looked for."""

    def hide(self, text: str) -> str:
        return text

    def is_name(self, key: str) -> bool:
        return False

    is_option = is_name


_NONE = _Nothing()


def is_value_of(before: Any, item: Any, patterns: Patterns | _Nothing) -> bool:
    """Whether an element of a list is the secret that the option before it takes: of
    `["--password", "abc"]` the second."""
    if isinstance(item, bool) or not isinstance(item, (str, int, float)):
        return False
    return OPTION_VALUE.match(str(item)) is not None and patterns.is_option(before)


def _shown_key(
    key: Any, patterns: Patterns | _Nothing, lines: KeyLines, others: Container[Any]
) -> Any:
    """What is shown of the key of an object, which may have a secret, too: unlike the others."""
    shown = patterns.hide(lines.hide_name(key)) if isinstance(key, str) else key
    while shown in others:
        shown += MASK
    return shown
