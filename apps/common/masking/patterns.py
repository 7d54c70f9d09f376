"""The patterns that hide secrets in texts: regular expressions alike in Python, MariaDB and MySQL.

All three apply the same ones in the same order, so that nothing can be found that is not shown. So
there are no \\w, \\s, \\b and no flags in them: each of the three means something else by these.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

MASK = "••••••"

_BLANK = r"\x09-\x0D\x20"
# The characters of a name: all but blanks, quotes and the signs between names and values.
_DIVIDERS = "\u3000，。；：？！＝（）“”‘’「」"
_IN_NAME = rf"[^\x00-\x20!\"#\$\&'\(\)\*\+,/:;<=>\?@\\\^`\{{\|\}}~\x7F{_DIVIDERS}]"
_REST = rf"{_IN_NAME}{{0,80}}"
# Where words of a name begin and end, also in `apiKey`, `APIKey` and `password2`.
_HUMP = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
# Before a name there may also be the escape of a line in a JSON text.
_BEGIN = rf"(?:(?<![A-Za-z])|(?<=\\[nrt])|{_HUMP})"
_END = rf"(?:(?![A-Za-z])|{_HUMP})"
_GAP = r"[_.%\[\]\-]{0,2}"
_WIDE_GAP = r"[_.%\[\]\-\x20]{0,2}"
# Shorter ones would be found in too much.
_MIN_SPREAD = 6
# Names that end so are about a secret, and their values are none: `session_count`, `TokenError`.
_ABOUT = (
    *("at", "changed", "count", "counts", "created", "days", "enabled", "error", "exception"),
    *("expired", "expires", "expires_in", "expiry", "failed", "hours", "invalid", "length"),
    *("limit", "minutes", "missing", "required", "seconds", "size", "timeout", "ttl", "type"),
    *("updated", "长度", "数量", "次数", "类型", "错误", "失败", "无效", "过期", "为空"),
)
# Too common elsewhere, but in the query of an address they name what opens it.
_IN_QUERY = ("key", "sig", "sign", "signature")
_WAYS = (
    *("Bearer", "Basic", "Token", "Digest", "ApiKey", "Api-Key", "Negotiate", "NTLM", "OAuth"),
    *("Hawk", "SSWS", "AWS4-HMAC-SHA256"),
)
_WAY = rf"(?:(?i:{'|'.join(_WAYS)})[{_BLANK}]+)?"
_SPACE = rf"[{_BLANK}]{{0,8}}"
_COLON, _EQUALS = "[:：]", "[:=＝]?[=＝]>?"
# The end of a quoted name, also within a JSON text in another, and the begin of a quoted value.
_CLOSING, _OPENING = r"\\{0,7}[\"'`]", r"[bBuUrR]{0,2}\\{0,7}[\"'`]"

# No secret begins in a text without any of these.
_SIGN = re.compile(r"[:=@：＝>]|--|bearer|basic", re.IGNORECASE)
_NO_LETTERS = re.compile(r"[_.%\[\]\\\- ]+")


class Patterns:
    """Made from the names of the list: those that are found as words of a name, and `whole`
    ones."""

    def __init__(self, words: Iterable[str], whole: Iterable[str]) -> None:
        words, whole = [*filter(_letters, words)], [*filter(_letters, sorted(whole))]
        letters = [_letters(name) for name in (*words, *whole)]
        self._letters = [*letters, *("".join(map(_escape, each)) for each in letters)]
        name = _name(words, whole)
        self._name = re.compile(name)
        self.sources = tuple(_sources(name))
        self._hiding = [re.compile(source) for source in self.sources]
        # Keys repeat.
        self.is_name = functools.lru_cache(maxsize=4096)(self._is_name)

    def _is_name(self, key: str) -> bool:
        """Whether that is the name of a secret."""
        return self._name.search(key) is not None

    def hide(self, text: str) -> str:
        """The text with MASK in place of each secret."""
        if not _SIGN.search(text):
            return text
        named = self._may_name(text)
        hiding = self._hiding if named else self._hiding[:_UNNAMED]
        for pattern in hiding:
            text = pattern.sub(_masked, text)
        return text

    def _may_name(self, text: str) -> bool:
        """Whether the text has the letters of a name: a quick look."""
        letters = _NO_LETTERS.sub("", text).lower()
        return any(each in letters for each in self._letters)


def _masked(found: re.Match[str]) -> str:
    return found[1] + MASK


def _letters(name: str) -> str:
    """The letters of a name that are compared: `apikey` of `API-Key`."""
    return "".join(filter(str.isalnum, name)).lower()


def _spread(name: str) -> str:
    """The name in capitals or not, with what may stand between its parts."""
    gap = _GAP if len(_letters(name)) >= _MIN_SPREAD and name.isascii() else ""
    parts = re.findall(r"[^\W_]+", name)
    return _WIDE_GAP.join(gap.join(map(_either, part)) for part in parts)


def _either(letter: str) -> str:
    cases = {letter.lower(), letter.upper()}
    both = "".join(sorted(each for each in cases if len(each) == 1))
    return f"[{both}]" if len(both) > 1 else re.escape(letter)


def _escape(letter: str) -> str:
    """The letter as JSON in ASCII has it, without the backslash: `u5bc6`."""
    return letter if letter.isascii() else f"u{ord(letter):04x}"


def _name(words: list[str], whole: list[str]) -> str:
    """The name of a secret, or the begin of it: the rest is in the text behind."""
    about = rf"(?:{_WIDE_GAP}(?:{'|'.join(map(_spread, _ABOUT))}))+(?!{_IN_NAME})"
    found = [
        rf"{_BEGIN}(?:{_any(words, is_ascii=True)}){_END}",
        _any(words, is_ascii=False),
        _any_escaped(words),
    ]
    declared = rf"(?<!{_IN_NAME})(?:{_any(whole)}|{_any_escaped(whole)})(?!{_IN_NAME})"
    return rf"(?:(?:{'|'.join(found)})(?!{about})|{declared})"


def _any(names: list[str], *, is_ascii: bool | None = None) -> str:
    """An expression for one of the names; without names, one that matches nothing."""
    some = [name for name in names if is_ascii is None or name.isascii() == is_ascii]
    return "|".join(map(_spread, some)) or "(?!)"


def _any_escaped(names: list[str]) -> str:
    """An expression for one of the names without ASCII letters, as JSON in ASCII has them, also
    within a JSON text."""
    some = (
        r"\\{1,7}".join(f"(?i:{_escape(letter)})" for letter in _letters(name))
        for name in names
        if not any(map(str.isascii, _letters(name)))
    )
    # Begins with one letter, so that most places are passed over at once.
    return rf"\\(?:\\{{0,6}}(?:{'|'.join(some) or '(?!)'}))"


def _sources(name: str) -> Iterable[str]:
    """The expressions that hide secrets, one after another; the text of their first group stays."""
    blank, some = _BLANK, rf"[^{_BLANK}\"'<>]"
    yield rf"((?<![A-Za-z0-9_])(?i:Bearer|Basic)[{blank}]+)[A-Za-z0-9_.~+/=\-]{{8,}}"
    # Up to the last @: many a password has one.
    yield rf"(://)[^{blank}/?#\"'<>]+(?=@)"
    yield rf"([?&;#](?i:{'|'.join(_IN_QUERY)})=)[^{blank}&;#\"'<>]+"
    yield r"(-----BEGIN[A-Z\x20]{0,40}\x20PRIVATE\x20KEY-----)(?:(?!-----END)[\s\S])+"

    sign = rf"{_SPACE}(?:{_COLON}|{_EQUALS}){_SPACE}"
    named = rf"{name}{_REST}(?:{_CLOSING})?{sign}"
    yield rf"({named}[bBuUrR]{{0,2}}([\"'`]))(?:\\[\s\S]|(?!\2)[^\\])+"
    yield rf"({named}(\\{{1,7}}[\"'`]))(?:(?!(?<!\\)\2)[\s\S])+"

    # A value that opens a bracket hides all that follows: no regular expression finds its end.
    begin = rf"(?!{_OPENING})(?:[\[{{(][\s\S]*|{_WAY}"
    yield rf"({name}{_REST}{_CLOSING}{sign}){begin}[^{blank},\}}\]\"'<>]+)"
    # `name: name: value` has one value, and so have cookies.
    yield (
        rf"({name}{_REST}{_SPACE}{_COLON}{_SPACE})"
        rf"{begin}(?:[^{blank}\"'<>]*[:：=;][{blank}]+){{0,20}}{some}+)"
    )
    yield (
        rf"({name}{_REST}{_SPACE}(?:{_EQUALS}){_SPACE})"
        rf"{begin}(?:[^{blank}&;#\"'<>]*[:：=][{blank}]+){{0,20}}[^{blank}&;#\"'<>]+)"
    )

    # Options of a command, and XML.
    yield rf"((?<![A-Za-z0-9])--{_REST}{name}{_REST}[{blank}]+)(?!-)[^{blank}\"'<>]+"
    yield rf"(<[^<>/{blank}]{{0,80}}{name}{_REST}(?:[{blank}][^<>]{{0,200}})?>)[^<>]+"


# How many of them need no name.
_UNNAMED = 4
