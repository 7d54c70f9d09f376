"""What a message may say of JSON values.

Messages go to callers who see masks, to logs and to lists of what was left out. So they name the
path, the rule and its limit, and quote no value.
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


def quote(value: Any) -> str:
    """The kind of the value."""
    return next((word for kinds, word in _KINDS if isinstance(value, kinds)), "null")


def quote_key(key: str) -> str:
    """The key, unless it may have a secret in it."""
    return MASK if _NO_NAME.search(key) else key
