"""Characters that show nothing: they could hide or reorder text, make two names look alike, or run
commands when copied to a terminal. They are spelled out (`\\u202e`).

What belongs to the sign before it stays: it shows itself by what it does there.
"""

from __future__ import annotations

import re

# Control characters, marks of text direction, all others that Unicode says to ignore,
# and halves of a pair, which no page can be written with.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_PICTURE = (
    "[\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff\xa9\xae]"
)
_IDEOGRAPH = "[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
# Letters whose script needs that two of them are joined or parted.
_JOINED = "[\u0620-\u06ff\u0900-\u0dff]"
_KEPT = (
    # The form of an emoji, of a key of a telephone, of an ideograph, and of a Mongolian letter.
    f"(?<={_PICTURE})[\ufe0e\ufe0f]",
    "(?<=[0-9#*])\ufe0f(?=\u20e3)",
    f"(?<={_IDEOGRAPH})[\ufe00-\ufe02\U000e0100-\U000e01ef]",
    "(?<=[\u1820-\u18aa])[\u180b-\u180f]",
    # Two signs of one emoji, and two letters.
    f"(?:(?<={_PICTURE})|(?<={_PICTURE}\ufe0f))\u200d(?={_PICTURE})",
    f"(?<={_JOINED})[\u200c\u200d](?={_JOINED})",
    # The flag of a country within another.
    "(?<=\U0001f3f4)[\U000e0030-\U000e0039\U000e0061-\U000e007a]{4,6}\U000e007f",
)
_LOOKED_AT = re.compile(f"({'|'.join(_KEPT)})|[{_UNSEEN}]")


def with_all_seen(text: str) -> str:
    """The text with the characters that show nothing spelled out."""
    return _LOOKED_AT.sub(lambda found: found[1] or _spelled(found[0]), text)


def _spelled(sign: str) -> str:
    code = ord(sign)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
