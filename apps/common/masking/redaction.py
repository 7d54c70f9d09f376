"""JSON values and texts as they are shown to those who may not see their secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apps.common.masking import names
from apps.common.masking.patterns import MASK, OPTION_VALUE, Patterns


def redact(value: Any) -> Any:
    """The JSON value or text with MASK instead of its secrets: every value under the name of one,
    and in texts what stands behind such a name, the sign-in of an address and of a header."""
    return _redacted(value, names.patterns())


def quote(value: Any) -> str:
    """The value as JSON, masked and cut to 60 characters."""
    text = json.dumps(redact(value), default=str, ensure_ascii=False)
    # Invisible characters and lone surrogates are escaped.
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= 60 else text[:57] + "..."


def redact_line(value: Any) -> Any:
    """`redact` for log lines: without asking the database, whose errors are logged, too."""
    return _redacted(value, names.known_patterns())


def _redacted(value: Any, patterns: Patterns) -> Any:
    if isinstance(value, str):
        return patterns.hide(value)
    if isinstance(value, dict):
        return {
            shown: MASK if _is_secret(key, patterns) else _redacted(value[key], patterns)
            for shown, key in shown_keys(value, patterns).items()
        }
    if isinstance(value, list):
        return [
            MASK if is_value_of(before, item, patterns) else _redacted(item, patterns)
            for before, item in zip([None, *value], value, strict=False)
        ]
    return value


def is_value_of(before: Any, item: Any, patterns: Patterns) -> bool:
    """Whether an element of a list is the secret that the option before it takes: of
    `["--password", "abc"]` the second."""
    if isinstance(item, bool) or not isinstance(item, (str, int, float)):
        return False
    return OPTION_VALUE.match(str(item)) is not None and patterns.is_option(before)


def _is_secret(key: Any, patterns: Patterns) -> bool:
    return isinstance(key, str) and patterns.is_name(key)


def shown_keys(value: Mapping[Any, Any], patterns: Patterns) -> dict[Any, Any]:
    """The keys of the object by what is shown of them: those may have secrets, too."""
    keys: dict[Any, Any] = {}
    for key in value:
        shown = patterns.hide(key) if isinstance(key, str) else key
        while shown in keys:
            shown += MASK
        keys[shown] = key
    return keys
