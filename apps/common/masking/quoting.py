"""Quotes of JSON values in messages.

Messages go to callers who see masks, to logs and to lists of rows that were left out. About params
and contexts, whose schemas may call anything a secret, they name the path, the rule and its limit,
and the kind of the value. (Fields of the platform itself are quoted, see `redaction`.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from apps.common.masking.patterns import MASK
from apps.common.messages import Message
from apps.common.messages import Message as _

_KINDS: tuple[tuple[type | tuple[type, ...], Message], ...] = (
    (bool, _("The boolean")),
    (str, _("The text")),
    ((int, float), _("The number")),
    (list, _("The list")),
    (Mapping, _("The object")),
)
# No name of a property, but an address or `token=abc`.
_NO_NAME = re.compile(r"[=@：＝\s]")


def kind_of(value: Any) -> str:
    """The kind of the value, as the subject of a sentence: `The text`."""
    return next((word for kinds, word in _KINDS if isinstance(value, kinds)), "null")


def quote_key(key: str) -> str:
    """The key, unless it may have a secret in it."""
    return MASK if _NO_NAME.search(key) else key
